// The allocations of a job, or of one of its groups, the newest first.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { all, quote } from '../../lib/filter.js'
import { allocColumns, ALLOC_FACETS } from '../../parts/allocations.js'
import { List } from '../../parts/list.js'

export function Allocations({ job, namespace, group }) {
  return html`<${List} path=${at`/v1/allocations`} what="allocations" params=${{ namespace, reverse: true }} filter=${all(`JobID == ${quote(job.ID)}`, group && `TaskGroup == ${quote(group)}`)}
    columns=${allocColumns(['job'])} rowKey=${(a) => a.ID} search=${['ID', 'NodeName', 'TaskGroup']} facets=${ALLOC_FACETS} topics=${[`Allocation:${job.ID}`]} />`
}
