import { html, useEffect, useId, useRef, useState } from '../lib/dom.js'
import { Notice } from './notice.js'

/**
 * A modal dialog with one action. The browser keeps the focus inside it and gives it back.
 * @param {{title: string, action: string, danger?: boolean, onClose: () => void, onConfirm: () => Promise<any>, ready?: boolean, children: any}} props
 *   onConfirm throws if the action failed: the dialog then stays and shows the error. ready false
 *   disables the action.
 */
export function Dialog({ title, action, danger = false, onClose, onConfirm, ready = true, children }) {
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
        <button type="submit" class=${danger ? 'button danger' : 'button primary'} disabled=${busy || !ready}>${busy ? 'Working …' : action}</button>
      </div>
    </form>
  </dialog>`
}

/**
 * A button that opens a dialog.
 * @param {{label: string, danger?: boolean, primary?: boolean, disabled?: boolean, dialog: (close: () => void) => any}} props
 */
export function DialogButton({ label, danger = false, primary = false, disabled = false, dialog }) {
  const [open, setOpen] = useState(false)
  const kind = danger ? 'button danger-quiet' : primary ? 'button primary' : 'button'
  return html`<button type="button" class=${kind} disabled=${disabled} aria-haspopup="dialog" onClick=${() => setOpen(true)}>${label}</button>
    ${open && dialog(() => setOpen(false))}`
}
