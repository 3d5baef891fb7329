// The items of a variable. A value is in the document only after the user asked for it.
import { html, useState } from '../../lib/dom.js'
import { Code } from '../../parts/name.js'
import { Table } from '../../parts/table.js'
import { Field } from '../../parts/field.js'

const HIDDEN = '••••••••'

/** The items with a button for each value. */
export function Items({ items }) {
  const [shown, setShown] = useState({})
  const rows = Object.entries(items).sort(([a], [b]) => (a < b ? -1 : 1))
  const every = rows.length > 0 && rows.every(([name]) => shown[name])
  const toggle = () => setShown(every ? {} : Object.fromEntries(rows.map(([name]) => [name, true])))
  const columns = [
    { label: 'Item', head: true, cell: ([name]) => html`<${Code} of=${name} />` },
    { label: 'Value', kind: 'wide', cell: ([name, value]) => (shown[name] ? html`<pre class="value"><bdi>${value}</bdi></pre>` : html`<span class="muted" aria-label="hidden">${HIDDEN}</span>`) },
    { label: 'Actions', kind: 'narrow', cell: ([name]) => html`<button type="button" class="button" aria-label=${`${shown[name] ? 'Hide' : 'Show'} the value of ${name}`}
      onClick=${() => setShown({ ...shown, [name]: !shown[name] })}>${shown[name] ? 'Hide' : 'Show'}</button>` },
  ]
  return html`<p><button type="button" class="button" disabled=${rows.length === 0} onClick=${toggle}>${every ? 'Hide all values' : 'Show all values'}</button></p>
    <${Table} caption="items" columns=${columns} rows=${rows} rowKey=${([name]) => name} />`
}

/**
 * The form of the items. Values that were stored before stay hidden, and unchanged, until they are shown.
 * @param {{rows: {id: number, name: string, value: string, open: boolean}[], onChange: (rows: object[]) => void}} props
 */
export function ItemsForm({ rows, onChange }) {
  const set = (id, changes) => onChange(rows.map((r) => (r.id === id ? { ...r, ...changes } : r)))
  const twice = (r) => r.name !== '' && rows.some((other) => other.id !== r.id && other.name === r.name)
  return html`${rows.map((r, i) => html`<fieldset class="item" key=${r.id}>
      <legend>Item ${i + 1}</legend>
      <${Field} label=${`Name of item ${i + 1}`} value=${r.name} onInput=${(name) => set(r.id, { name })} error=${twice(r) ? 'Another item has this name.' : null} />
      ${r.open
        ? html`<${Field} label=${`Value of item ${i + 1}`} type="textarea" rows="2" value=${r.value} onInput=${(value) => set(r.id, { value })} />`
        : html`<p class="field"><span class="muted">${HIDDEN}</span> <button type="button" class="button" onClick=${() => set(r.id, { open: true })}>Show and edit item ${i + 1}</button></p>`}
      <button type="button" class="button danger-quiet" onClick=${() => onChange(rows.filter((other) => other.id !== r.id))}>Remove item ${i + 1}</button>
    </fieldset>`)}
    <p><button type="button" class="button" onClick=${() => onChange([...rows, newRow()])}>Add an item</button></p>`
}

let last = 0

/** A row of the form. A new one is open. */
export const newRow = (name = '', value = '', open = true) => ({ id: ++last, name, value, open })

/** The rows of stored items, with hidden values. */
export const rowsOf = (items) => Object.entries(items).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => newRow(name, value, false))

/** The items of rows, or the reason why they cannot be stored. */
export function itemsOf(rows) {
  if (rows.length === 0) return { fault: 'A variable has at least one item.' }
  if (rows.some((r) => r.name === '')) return { fault: 'Each item has a name.' }
  if (new Set(rows.map((r) => r.name)).size < rows.length) return { fault: 'Two items have the same name.' }
  return { items: Object.fromEntries(rows.map((r) => [r.name, r.value])) }
}
