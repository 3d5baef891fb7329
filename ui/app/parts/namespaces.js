import { html, useId } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { useQuery } from '../lib/query.js'

/** The choice of a namespace; "*" is all that the token may read. It is hidden if there is only one. */
export function Namespaces({ value, onChange }) {
  const id = useId()
  const { data } = useQuery(at`/v1/namespaces`)
  const names = (data ?? []).map((n) => n.Name)
  if (names.length < 2 && value === '*') return null
  if (value !== '*' && !names.includes(value)) names.push(value)
  return html`<div class="field">
    <label for=${id}>Namespace</label>
    <select id=${id} value=${value} onChange=${(e) => onChange(e.target.value)}>
      <option value="*">All namespaces</option>
      ${names.sort().map((name) => html`<option value=${name}>${name}</option>`)}
    </select>
  </div>`
}
