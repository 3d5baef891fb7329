import { html, useId } from '../lib/dom.js'

/**
 * A labelled input.
 * @param {{label: string, value: string, onInput: (value: string) => void, type?: string, hint?: string, error?: string}} props
 *   Other properties are those of the input. type 'textarea' makes a text area.
 */
export function Field({ label, value, onInput, type = 'text', hint, error, ...rest }) {
  const id = useId()
  const shared = {
    id, value, onInput: (e) => onInput(e.target.value), autocomplete: 'off', spellcheck: false,
    'aria-describedby': hint || error ? `${id}-hint` : null, 'aria-invalid': error ? 'true' : null, ...rest,
  }
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${type === 'textarea' ? html`<textarea ...${shared}></textarea>` : html`<input type=${type} ...${shared} />`}
    ${(hint || error) && html`<p id=${`${id}-hint`} class=${error ? 'hint error' : 'hint'}>${error ?? hint}</p>`}
  </div>`
}

/** A labelled check box. */
export function Check({ label, checked, onChange }) {
  const id = useId()
  return html`<div class="check"><input id=${id} type="checkbox" checked=${checked} onChange=${(e) => onChange(e.target.checked)} /><label for=${id}>${label}</label></div>`
}
