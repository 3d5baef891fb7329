import { html } from '../lib/dom.js'
import { session } from '../lib/session.js'
import { useStore } from '../lib/store.js'
import { Icon } from './icon.js'

const ICONS = { info: 'unknown', ok: 'ok', warn: 'warn', bad: 'bad' }

/** A message in the page. tone is info, ok, warn or bad. */
export function Notice({ tone = 'info', title, children, actions }) {
  return html`<div class="notice" data-tone=${tone} role=${tone === 'bad' ? 'alert' : 'status'}>
    <${Icon} name=${ICONS[tone]} />
    <div class="notice-text">${title && html`<strong>${title}</strong>`}<div>${children}</div></div>
    ${actions && html`<div class="actions">${actions}</div>`}
  </div>`
}

/** The error of a query, with its remedy. */
export function Failure({ error, what = 'this' }) {
  const { state } = useStore(session)
  if (!error) return null
  if (error.status === 0) return null // the frame reports that the agent does not answer
  if (error.status === 403 || error.status === 401) {
    if (state === 'refused') return null // the frame reports this as well
    return html`<${Notice} tone="warn" title=${`Your token may not read ${what}.`}>${error.message}. <a href="/ui/settings/tokens">Sign in with another token.</a><//>`
  }
  return html`<${Notice} tone="bad" title=${`Could not read ${what}.`}>${error.message}<//>`
}

/** A placeholder while the first answer is awaited. It appears after a moment only. */
export const Loading = () => html`<p class="loading" role="status">Loading …</p>`

/** The text of a list without rows. */
export const Empty = ({ children }) => html`<div class="empty">${children}</div>`
