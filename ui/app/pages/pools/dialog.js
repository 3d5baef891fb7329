// The dialogs that create, change and delete a node pool.
import { html, useId, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { Dialog } from '../../parts/dialog.js'
import { Field } from '../../parts/field.js'
import { Name } from '../../parts/name.js'

/** The pools that each cluster has. They cannot be changed. */
export const BUILT_IN = ['all', 'default']

const ALGORITHMS = [['', 'As the cluster'], ['binpack', 'Binpack: fill nodes'], ['spread', 'Spread: use many nodes']]
const MEMORY = [['', 'As the cluster'], ['on', 'Tasks may use more than they reserve'], ['off', 'No oversubscription']]

/** pool is the one to change, undefined for a new one. */
export function PoolDialog({ pool, onClose, onDone }) {
  const [seen] = useState(pool) // the list goes on behind the dialog
  const [name, setName] = useState(seen?.Name ?? '')
  const [description, setDescription] = useState(seen?.Description ?? '')
  const [algorithm, setAlgorithm] = useState(seen?.SchedulerConfiguration?.SchedulerAlgorithm ?? '')
  const over = seen?.SchedulerConfiguration?.MemoryOversubscriptionEnabled
  const [memory, setMemory] = useState(over === true ? 'on' : over === false ? 'off' : '')
  async function confirm() {
    const config = algorithm || memory ? { SchedulerAlgorithm: algorithm, MemoryOversubscriptionEnabled: { on: true, off: false }[memory] ?? null } : null
    await unchanged(name, seen)
    await api.put(at`/v1/node/pools`, { Name: name, Description: description, Meta: seen?.Meta ?? null, NodeIdentityTTL: seen?.NodeIdentityTTL ?? 0, SchedulerConfiguration: config })
    await onDone()
  }
  return html`<${Dialog} title=${seen ? 'Change the node pool' : 'Create a node pool'} action=${seen ? 'Save' : 'Create'} onClose=${onClose} onConfirm=${confirm} ready=${/^[\w-]{1,128}$/.test(name)}>
    <${Field} label="Name" value=${name} onInput=${setName} readonly=${Boolean(seen)} maxlength="128" hint="Letters, digits, hyphens and underscores" />
    <${Field} label="Description" value=${description} onInput=${setDescription} maxlength="256" />
    <${Select} label="Placement" value=${algorithm} options=${ALGORITHMS} onChange=${setAlgorithm} />
    <${Select} label="Memory" value=${memory} options=${MEMORY} onChange=${setMemory} />
  <//>`
}

/** The API replaces a pool as a whole: one that someone else has changed or created is an error. */
async function unchanged(name, seen) {
  const now = await api.get(at`/v1/node/pools`, { prefix: name }).then(({ data }) => data.find((p) => p.Name === name))
  if (!seen && now) throw new Error('A node pool of this name exists.')
  if (seen && now?.ModifyIndex !== seen.ModifyIndex) throw new Error('The node pool was changed since you opened this dialog. Close it and look at the pool again.')
}

function Select({ label, value, options, onChange }) {
  const id = useId()
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(e) => onChange(e.target.value)}>${options.map(([v, text]) => html`<option value=${v}>${text}</option>`)}</select></div>`
}

export function DeleteDialog({ pool, onClose, onDone }) {
  async function confirm() {
    await api.del(at`/v1/node/pool/${pool.Name}`)
    await onDone()
  }
  return html`<${Dialog} title="Delete the node pool?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The pool <strong><${Name} of=${pool.Name} /></strong> is deleted. The servers refuse this while it has nodes or jobs.</p>
  <//>`
}
