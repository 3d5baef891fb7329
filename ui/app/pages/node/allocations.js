// The allocations of a node, the newest first.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { quote } from '../../lib/filter.js'
import { allocColumns, ALLOC_FACETS } from '../../parts/allocations.js'
import { List } from '../../parts/list.js'

export function Allocations({ node }) {
  return html`<${List} path=${at`/v1/allocations`} what="allocations" params=${{ reverse: true }} filter=${`NodeID == ${quote(node.ID)}`} namespaced
    columns=${allocColumns(['node'])} rowKey=${(a) => a.ID} search=${['ID', 'JobID', 'TaskGroup']} facets=${ALLOC_FACETS} topics=${['Allocation']}
    empty=${html`<p>No allocation was placed on this node.</p>`} />`
}
