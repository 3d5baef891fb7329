// One evaluation: what the scheduler did, why something is not placed, and the evaluations related to it.
import { html, useCallback } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { quote } from '../lib/filter.js'
import { shortID } from '../lib/format.js'
import { evalHref, jobHref, nodeHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { ALLOC_FACETS, allocColumns } from '../parts/allocations.js'
import { Explain, EXPLAIN_PAGE } from '../parts/explain.js'
import { List } from '../parts/list.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Placement } from '../parts/placement.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { Updates } from '../parts/updates.js'
import { TRIGGERS, verdict } from './evaluation/words.js'

export default function Evaluation({ params }) {
  const { data: e, error } = useQuery(at`/v1/evaluation/${params.id}`, { params: { related: true }, topics: [`Evaluation:${params.id}`], namespace: '*' })
  return html`<${Page} title=${`Evaluation ${shortID(params.id)}`} crumbs=${[{ href: '/ui/evaluations', label: 'Evaluations' }]} status=${e && html`<${Status} of=${e.Status} />`}>
    <${Failure} error=${error} what="this evaluation" />
    ${!e && !error && html`<${Loading} />`}
    ${e && html`<p class="lead">${TRIGGERS[e.TriggeredBy] ?? ''} ${verdict(e)}</p>
      <${About} evaluation=${e} /><${NotPlaced} evaluation=${e} />
      <${Planned} annotations=${e.PlanAnnotations} /><${Related} evaluation=${e} />`}
    ${e?.JobID && e.Type !== '_core' && html`<${Section} title="Allocations"><${List} path=${at`/v1/allocations`} what="allocations" params=${{ namespace: e.Namespace }} filter=${`EvalID == ${quote(e.ID)}`}
      columns=${allocColumns(['job'])} rowKey=${(a) => a.ID} facets=${ALLOC_FACETS} topics=${[`Allocation:${e.JobID}`]} empty=${html`<p>No allocation was placed by this evaluation.</p>`} /><//>`}
  <//>`
}

function About({ evaluation: e }) {
  const link = (id, to) => (id ? html`<a href=${to(id)}><${Code} of=${shortID(id)} /></a>` : null)
  return html`<${Facts} rows=${[
    ['ID', html`<${Code} of=${e.ID} />`], ['Job', e.JobID && e.Type !== '_core' && html`<a href=${jobHref(e.JobID, e.Namespace)}><${Name} of=${e.JobID} /></a>`],
    ['Namespace', html`<${Name} of=${e.Namespace} />`], ['Type', e.Type], ['Priority', String(e.Priority)], ['Cause', e.TriggeredBy],
    ['Description', e.StatusDescription && html`<bdi>${e.StatusDescription}</bdi>`], ['Node', link(e.NodeID, nodeHref)],
    ['Waits until', e.WaitUntil && !e.WaitUntil.startsWith('0001') ? html`<${Ago} at=${e.WaitUntil} />` : null],
    ['Quota reached', e.QuotaLimitReached && html`<${Name} of=${e.QuotaLimitReached} />`], ['Lacks', (e.MissingNonNodeResources ?? []).join(', ')],
    ['Previous', link(e.PreviousEval, evalHref)], ['Next', link(e.NextEval, evalHref)], ['Blocked', link(e.BlockedEval, evalHref)],
    ['Created', html`<${Ago} at=${e.CreateTime} />`], ['Changed', html`<${Ago} at=${e.ModifyTime} />`],
  ].map(([term, value]) => [term, value || null])} />`
}

/** Why allocations are not placed: what the scheduler found then, and what it finds on each node now. */
function NotPlaced({ evaluation: e }) {
  const failed = Object.entries(e.FailedTGAllocs ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  const load = useCallback((token) => api.get(at`/v1/job/${e.JobID}/explain`, { namespace: e.Namespace, per_page: EXPLAIN_PAGE, next_token: token }), [e.JobID, e.Namespace])
  if (failed.length === 0) return null
  return html`
    <${Section} title="Why is it not placed?">
      ${failed.map(([group, metric]) => html`<${Placement} key=${group} group=${group} metric=${metric} />`)}
      ${e.BlockedEval && html`<p>Evaluation <a href=${evalHref(e.BlockedEval)}><${Code} of=${shortID(e.BlockedEval)} /></a> waits for room for the rest.</p>`}
    <//>
    <${Section} title="The nodes now"><p class="muted">Each node is checked again for one more allocation of each group.</p><${Explain} load=${load} /><//>`
}

function Planned({ annotations }) {
  const rows = Object.entries(annotations?.DesiredTGUpdates ?? {}).filter(([, u]) => u).map(([group, u]) => ({ group, ...u }))
  if (rows.length === 0) return null
  return html`<${Section} title="Planned changes"><${Updates} rows=${rows} /><//>`
}

const RELATED = [
  { label: 'ID', head: true, cell: (e) => html`<a href=${evalHref(e.ID)}><${Code} of=${shortID(e.ID)} /></a>` },
  { label: 'Relation', kind: 'narrow', cell: (e) => e.relation },
  { label: 'Status', kind: 'narrow', cell: (e) => html`<${Status} of=${e.Status} />` },
  { label: 'Cause', cell: (e) => TRIGGERS[e.TriggeredBy] ?? e.TriggeredBy },
  { label: 'Description', cell: (e) => html`<bdi>${e.StatusDescription}</bdi>` },
  { label: 'Created', kind: 'narrow', cell: (e) => html`<${Ago} at=${e.CreateTime} />` },
]

function Related({ evaluation: e }) {
  const names = new Map([[e.PreviousEval, 'previous'], [e.NextEval, 'next'], [e.BlockedEval, 'waits for room']])
  const rows = (e.RelatedEvals ?? []).filter((r) => r.ID !== e.ID).map((r) => ({ ...r, relation: names.get(r.ID) ?? 'related' })).sort((a, b) => a.CreateIndex - b.CreateIndex)
  if (rows.length === 0) return null
  return html`<${Section} title="Related evaluations"><${Table} caption="Related evaluations" columns=${RELATED} rows=${rows} rowKey=${(r) => r.ID} /><//>`
}
