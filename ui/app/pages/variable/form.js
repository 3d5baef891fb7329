// The form of a variable. It writes with check-and-set: the variable must be as it was when the form was opened.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { Field } from '../../parts/field.js'
import { Notice } from '../../parts/notice.js'
import { Conflict } from './conflict.js'
import { ItemsForm, itemsOf, newRow, rowsOf } from './items.js'

/**
 * Writes a variable if it still has the index. Returns the stored variable, or the conflict.
 * @returns {Promise<{written?: object, conflict?: object}>}
 */
async function write(path, namespace, items, index) {
  try {
    const { data } = await api.put(at`/v1/var/${path}`, { Path: path, Namespace: namespace, Items: items }, { namespace, cas: index })
    return { written: data }
  } catch (error) {
    if (error.status === 409) return { conflict: JSON.parse(error.message) }
    throw error
  }
}

const PATH = /^[a-zA-Z0-9\-_~/]{1,128}$/

/**
 * @param {{variable: object|null, start?: {path: string, namespace: string}, onDone: (variable: object) => void, onCancel: () => void}} props
 *   variable is null for a new one, which begins at start
 */
export function VariableForm({ variable, start, onDone, onCancel }) {
  // What the user saw. The page behind the form goes on.
  const [seen, setSeen] = useState({ items: variable?.Items ?? {}, index: variable?.ModifyIndex ?? 0 })
  const [path, setPath] = useState(variable?.Path ?? start.path)
  const [namespace, setNamespace] = useState(variable?.Namespace ?? start.namespace)
  const [rows, setRows] = useState(() => (variable ? rowsOf(variable.Items ?? {}) : [newRow()]))
  const [conflict, setConflict] = useState(null)
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  const { items, fault } = itemsOf(rows)
  const named = PATH.test(path) && namespace !== ''

  async function save(all, index) {
    setBusy(true)
    setError(null)
    try {
      const { written, conflict: found } = await write(path, namespace, all, index)
      if (written) return onDone(written)
      setRows(rowsOf(all)) // what was chosen in an earlier conflict stays
      setConflict({ mine: all, theirs: found })
    } catch (err) {
      setError(err)
    } finally {
      setBusy(false)
    }
  }

  if (conflict) {
    const stored = conflict.theirs
    const readable = 'Items' in stored || stored.ModifyIndex === 0
    return html`${error && html`<${Notice} tone="bad" title="The variable was not written.">${error.message}<//>`}
      <${Conflict} key=${stored.ModifyIndex} base=${seen.items} mine=${conflict.mine} theirs=${readable ? stored.Items ?? {} : null} at=${stored.ModifyTime} busy=${busy}
        onBack=${() => setConflict(null)} onSave=${(all) => {
          setSeen({ items: stored.Items ?? {}, index: stored.ModifyIndex ?? 0 })
          save(all, stored.ModifyIndex ?? 0)
        }} />`
  }
  return html`<form class="variable-form" onSubmit=${(e) => { e.preventDefault(); if (!fault && named && !busy) save(items, seen.index) }}>
    ${!variable && html`
      <${Field} label="Path" value=${path} onInput=${setPath} maxlength="128" error=${path && !PATH.test(path) ? 'Use letters, digits and - _ ~ /' : null}
        hint="A task reads nomad/jobs, nomad/jobs/JOB, nomad/jobs/JOB/GROUP and nomad/jobs/JOB/GROUP/TASK of its own job without a policy." />
      <${Field} label="Namespace" value=${namespace} onInput=${setNamespace} maxlength="128" />`}
    <h2>Items</h2>
    <${ItemsForm} rows=${rows} onChange=${setRows} />
    ${error && html`<${Notice} tone="bad" title="The variable was not written.">${error.message}<//>`}
    <div class="actions">
      <button type="button" class="button" onClick=${onCancel}>Cancel</button>
      <button type="submit" class="button primary" disabled=${busy || Boolean(fault) || !named}>${busy ? 'Working …' : variable ? 'Save' : 'Create'}</button>
      ${fault && html`<span class="muted">${fault}</span>`}
    </div>
  </form>`
}
