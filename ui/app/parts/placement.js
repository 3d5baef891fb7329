import { html } from '../lib/dom.js'
import { plural } from '../lib/format.js'
import { Name } from './name.js'
import { Notice } from './notice.js'

/** Why allocations of a group could not be placed: an object of the API of the type AllocMetric. */
export function Placement({ group, metric }) {
  const reasons = [
    ...reasonsOf(metric.ConstraintFiltered, (n, what) => html`${plural(n, 'node')} excluded: <${Name} of=${what} />`),
    ...reasonsOf(metric.ClassFiltered, (n, what) => html`${plural(n, 'node')} of class <${Name} of=${what} /> excluded`),
    ...reasonsOf(metric.DimensionExhausted, (n, what) => html`${plural(n, 'node')} without enough: <${Name} of=${what} />`),
    ...reasonsOf(metric.ClassExhausted, (n, what) => html`${plural(n, 'node')} of class <${Name} of=${what} /> exhausted`),
    ...(metric.QuotaExhausted ?? []).map((what) => html`quota reached: <${Name} of=${what} />`),
  ]
  const more = metric.CoalescedFailures ?? 0
  return html`<${Notice} tone="warn" title=${html`Group <${Name} of=${group} />: ${plural(1 + more, 'allocation')} not placed`}>
    ${metric.NodesEvaluated === 0 && reasons.length === 0
      ? html`No node is eligible in the job's datacenters and in node pool <${Name} of=${metric.NodePool || 'default'} />.`
      : html`${plural(metric.NodesEvaluated, 'node')} evaluated.<ul class="reasons">${reasons.map((r) => html`<li>${r}</li>`)}</ul>`}
  <//>`
}

const reasonsOf = (counts, text) => Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]).map(([what, n]) => text(n, what))
