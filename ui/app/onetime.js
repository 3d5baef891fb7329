// The question before a one-time token of the URL replaces the token of this window. Anyone can send a link, so
// the token of a link is not taken while the window has another.
import { html, useState } from './lib/dom.js'
import { session } from './lib/session.js'
import { useStore } from './lib/store.js'
import { Name } from './parts/name.js'
import { Page } from './parts/page.js'

/** onKeep and onUse are called once, with the answer. */
export function OneTimeQuestion({ onKeep, onUse }) {
  const { state, self } = useStore(session)
  const [busy, setBusy] = useState(false)
  const use = () => {
    setBusy(true)
    onUse()
  }
  return html`<main id="main" class="main"><${Page} title="Sign in with another token?">
    <p>${self ? html`This window is signed in with the token <strong><${Name} of=${self.Name || self.AccessorID} /></strong>.` : `This window has a token${state === 'refused' ? ', which is no longer accepted' : ''}.`}
      ${' '}The link that opened this page brings a one-time token, which replaces it. What you do is then done with the rights, and in the name, of the token of the link.</p>
    <p>If you did not make the link yourself, keep the token of this window.</p>
    <div class="actions">
      <button type="button" class="button primary" onClick=${onKeep}>Keep the token of this window</button>
      <button type="button" class="button" aria-disabled=${busy} onClick=${busy ? null : use}>${busy ? 'Working …' : 'Use the token of the link'}</button>
    </div>
  <//></main>`
}
