// The attributes of a node, for constraints and affinities.
import { html, useState } from '../../lib/dom.js'
import { Field } from '../../parts/field.js'
import { Code } from '../../parts/name.js'
import { Empty } from '../../parts/notice.js'
import { Table } from '../../parts/table.js'

const COLUMNS = [
  { label: 'Attribute', head: true, cell: ([key]) => html`<${Code} of=${key} />` },
  { label: 'Value', cell: ([, value]) => html`<${Code} of=${value} />` },
]

export function Attributes({ node }) {
  const [text, setText] = useState('')
  const own = [['node.class', node.NodeClass], ['node.datacenter', node.Datacenter], ['node.pool', node.NodePool], ['node.unique.id', node.ID], ['node.unique.name', node.Name]]
  const attributes = Object.entries(node.Attributes ?? {}).map(([key, value]) => [`attr.${key}`, value])
  const rows = [...own, ...attributes.sort(([a], [b]) => (a < b ? -1 : 1))].filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(text.toLowerCase()))
  return html`<p class="muted">A constraint uses them as <code>${'${attr.kernel.name}'}</code>.</p>
    <div class="list-tools"><${Field} label="Filter" type="search" value=${text} onInput=${setText} maxlength="200" /></div>
    ${rows.length > 0 ? html`<${Table} caption="Attributes" columns=${COLUMNS} rows=${rows} rowKey=${([key]) => key} />` : html`<${Empty}>No attribute matches the filter.<//>`}`
}
