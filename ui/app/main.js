// The entry point: signs in with a one-time token of the URL, then draws the frame.
import { html, render } from './lib/dom.js'
import { keepFocus } from './lib/focus.js'
import { checkToken, currentToken, exchangeOneTimeToken } from './lib/session.js'
import { currentLocation, replaceQuery, startRouter } from './lib/router.js'
import { Frame } from './frame.js'
import { OneTimeQuestion } from './onetime.js'

const draw = (component) => render(component, document.getElementById('app'))

async function main() {
  startRouter()
  keepFocus()
  const oneTime = currentLocation().query.get('ott')
  if (!oneTime) {
    checkToken()
  } else {
    replaceQuery({ ott: null }) // out of the address bar and the history, before anything else
    if (!currentToken() || await isWanted()) await exchangeOneTimeToken(oneTime)
  }
  draw(html`<${Frame} />`)
}

/** Asks whether the one-time token of the URL may replace the token of this window. */
async function isWanted() {
  await checkToken() // the question names the token of this window
  return new Promise((answer) => draw(html`<${OneTimeQuestion} onKeep=${() => answer(false)} onUse=${() => answer(true)} />`))
}

main()
