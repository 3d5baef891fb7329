// The entry point: signs in with a one-time token of the URL, then draws the frame.
import { html, render } from './lib/dom.js'
import { keepFocus } from './lib/focus.js'
import { checkToken, exchangeOneTimeToken } from './lib/session.js'
import { currentLocation, replaceQuery, startRouter } from './lib/router.js'
import { Frame } from './frame.js'

async function main() {
  startRouter()
  keepFocus()
  const oneTime = currentLocation().query.get('ott')
  if (oneTime) {
    replaceQuery({ ott: null }) // out of the address bar and the history, even if the exchange fails
    await exchangeOneTimeToken(oneTime)
  } else {
    checkToken()
  }
  render(html`<${Frame} />`, document.getElementById('app'))
}

main()
