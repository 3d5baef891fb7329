// The allocations of a job, the newest first.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { quote } from '../../lib/filter.js'
import { allocColumns, ALLOC_FACETS } from '../../parts/allocations.js'
import { List } from '../../parts/list.js'

export function Allocations({ job, namespace }) {
  return html`<${List} path=${at`/v1/allocations`} what="allocations" params=${{ namespace, reverse: true }} filter=${`JobID == ${quote(job.ID)}`}
    columns=${allocColumns(['job'])} rowKey=${(a) => a.ID} search=${['ID', 'NodeName', 'TaskGroup']} facets=${ALLOC_FACETS} topics=${[`Allocation:${job.ID}`]} />`
}
