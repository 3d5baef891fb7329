import { html, useEffect, useId, useLayoutEffect, useRef, useState } from '../lib/dom.js'
import { href } from '../lib/router.js'
import { session, signIn } from '../lib/session.js'
import { useStore } from '../lib/store.js'
import { Field } from './field.js'
import { Notice } from './notice.js'

/**
 * A modal dialog with one action. The browser keeps the focus inside it; DialogButton gives it back, or
 * lib/focus.js if the action has removed the button.
 * @param {{title: string, action: string, danger?: boolean, onClose: () => void, onConfirm: () => Promise<any>, ready?: boolean, signsIn?: boolean, children: any}} props
 *   onConfirm throws if the action failed: the dialog then stays and shows the error. ready false
 *   disables the action. signsIn is true for the dialog that ends the state of a refused token.
 */
export function Dialog({ title, action, danger = false, onClose, onConfirm, ready = true, signsIn = false, children }) {
  const ref = useRef(null)
  const heading = useId()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(null)
  useEffect(() => {
    const dialog = ref.current
    dialog.showModal()
    return () => dialog.close()
  }, [])
  async function confirm(event) {
    event.preventDefault()
    if (busy || !ready) return
    setBusy(true)
    setError(null)
    try {
      await onConfirm()
      onClose()
    } catch (err) {
      setError(err)
      setBusy(false)
    }
  }
  return html`<dialog ref=${ref} class="dialog" aria-labelledby=${heading} onCancel=${(e) => { e.preventDefault(); onClose() }}>
    <form onSubmit=${confirm}>
      <h2 id=${heading}>${title}</h2>
      <div class="dialog-body">${children}</div>
      ${error && html`<${Notice} tone="bad" title="That did not work.">${error.message}<//>`}
      <div class="actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${danger ? 'button danger' : 'button primary'} disabled=${!ready} aria-disabled=${busy}>${busy ? 'Working …' : action}</button>
      </div>
    </form>
    ${!signsIn && html`<${Refused} />`}
  </dialog>`
}

/**
 * A button that opens a dialog. Two buttons that take turns at one place, such as "Stop" and "Start", have
 * keys: without them the second one takes the open dialog of the first.
 * @param {{label: string, danger?: boolean, primary?: boolean, disabled?: boolean, dialog: (close: () => void) => any}} props
 */
export function DialogButton({ label, danger = false, primary = false, disabled = false, dialog }) {
  const [open, setOpen] = useState(false)
  const button = useRef(null)
  const close = () => setOpen(false)
  // The dialog is removed when it closes: the browser does not give the focus back.
  useLayoutEffect(() => (open ? () => button.current?.focus({ preventScroll: true }) : undefined), [open])
  const kind = danger ? 'button danger-quiet' : primary ? 'button primary' : 'button'
  return html`<button type="button" ref=${button} class=${kind} disabled=${disabled} aria-haspopup="dialog" onClick=${() => setOpen(true)}>${label}</button>
    ${open && dialog(close)}`
}

/** The notice that the token of the session was refused. What was typed into the page, or into a dialog, stays. */
export function Refused() {
  const { state } = useStore(session)
  if (state !== 'refused') return null
  return html`<${Notice} tone="warn" title="Your token is no longer accepted." actions=${html`<${SignInAgain} />`}>It has expired or was deleted. What you typed stays in this page while you sign in again.<//>`
}

/** A button that opens the sign-in above the page and its dialogs. */
export const SignInAgain = () => html`<${DialogButton} label="Sign in again" dialog=${(close) => html`<${SignIn} onClose=${close} />`} />`

function SignIn({ onClose }) {
  const [token, setToken] = useState('')
  async function confirm() {
    await signIn(token)
    if (session.value.state === 'refused') throw new Error('This token is not accepted either.')
  }
  return html`<${Dialog} title="Sign in again" action="Sign in" ready=${token.trim() !== ''} onClose=${onClose} onConfirm=${confirm} signsIn>
    <${Field} label="Secret ID of an ACL token" type="password" value=${token} onInput=${setToken} maxlength="8192" />
    <p class="hint"><a href=${href('/ui/settings/tokens')} onClick=${onClose}>Other ways to sign in</a> are another page: what you typed into this page is lost there.</p>
  <//>`
}
