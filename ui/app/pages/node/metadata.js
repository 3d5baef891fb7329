// The metadata of a node, and its changes. A change survives restarts of the agent.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { useQuery } from '../../lib/query.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { Field } from '../../parts/field.js'
import { Code } from '../../parts/name.js'
import { Empty, Failure } from '../../parts/notice.js'
import { Table } from '../../parts/table.js'

export function Metadata({ node, refresh }) {
  // The node knows which keys were set in its configuration. If it is gone, the servers still have all of them.
  const parts = useQuery(node.Status === 'ready' ? at`/v1/client/metadata` : null, { params: { node_id: node.ID }, topics: [`Node:${node.ID}`], namespace: '*' })
  const meta = parts.data?.Meta ?? node.Meta ?? {}
  const rows = Object.entries(meta).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => ({ key, value, dynamic: Object.hasOwn(parts.data?.Dynamic ?? {}, key) }))
  const done = () => Promise.all([parts.refresh(), refresh()])
  const columns = [
    { label: 'Key', head: true, cell: (r) => html`<${Code} of=${r.key} />` },
    { label: 'Value', cell: (r) => html`<${Code} of=${r.value} />` },
    ...(parts.data ? [
      { label: 'Set by', kind: 'narrow', cell: (r) => (r.dynamic ? 'a change' : 'the configuration') },
      { label: 'Actions', kind: 'narrow', cell: (r) => html`<div class="actions">
        <${DialogButton} label="Change" dialog=${(close) => html`<${Change} node=${node} row=${r} onClose=${close} onDone=${done} />`} />
        <${DialogButton} label="Remove" danger dialog=${(close) => html`<${Remove} node=${node} row=${r} onClose=${close} onDone=${done} />`} /></div>` }] : []),
  ]
  return html`
    <p class="muted">A constraint uses a key as <code>${'${meta.KEY}'}</code>.</p>
    <${Failure} error=${parts.error} what="the metadata from the node" />
    ${parts.data && html`<div class="list-tools"><${DialogButton} label="Add a key" primary dialog=${(close) => html`<${Change} node=${node} onClose=${close} onDone=${done} />`} /></div>`}
    ${rows.length > 0 ? html`<${Table} caption="Metadata" columns=${columns} rows=${rows} rowKey=${(r) => r.key} />` : html`<${Empty}>This node has no metadata.<//>`}`
}

const apply = (node, changes) => api.post(at`/v1/client/metadata`, { NodeID: node.ID, Meta: changes }, { node_id: node.ID })

function Change({ node, row, onClose, onDone }) {
  const [key, setKey] = useState(row?.key ?? '')
  const [value, setValue] = useState(row?.value ?? '')
  async function confirm() {
    await apply(node, { [key]: value })
    await onDone()
  }
  return html`<${Dialog} title=${row ? 'Change the value' : 'Add a key'} action="Save" onClose=${onClose} onConfirm=${confirm} ready=${key.trim() !== ''}>
    <${Field} label="Key" value=${key} onInput=${setKey} readonly=${Boolean(row)} maxlength="500" />
    <${Field} label="Value" value=${value} onInput=${setValue} maxlength="4000" />
  <//>`
}

function Remove({ node, row, onClose, onDone }) {
  async function confirm() {
    await apply(node, { [row.key]: null })
    await onDone()
  }
  return html`<${Dialog} title="Remove the key?" action="Remove" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The key <${Code} of=${row.key} /> is removed from the node. A value of the configuration stays removed after a restart.</p>
  <//>`
}
