// The overview of the cluster: its nodes by use, isolation and health, and what needs attention.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { count, mebibytes, percent, plural, shortID } from '../lib/format.js'
import { allocHref, jobHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Code, Name } from '../parts/name.js'
import { Empty, Failure, Loading } from '../parts/notice.js'
import { NodeMap } from '../parts/nodemap.js'
import { Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'

const MOST_NODES = 1000
const MOST_ROWS = 8

export default function Overview() {
  const nodes = useQuery(at`/v1/nodes`, { params: { resources: true, use: true, per_page: MOST_NODES }, topics: ['Node', 'Allocation'], namespace: '*', gap: 3000 })
  return html`<${Page} title="Overview">
    <${Failure} error=${nodes.error} what="the nodes" />
    ${nodes.data === undefined && !nodes.error && html`<${Loading} />`}
    ${nodes.data && html`<${Totals} nodes=${nodes.data} /><${Nodes} nodes=${nodes.data} more=${nodes.next !== ''} />`}
    <${Deployments} /><${Blocked} /><${Failed} />
  <//>`
}

function Totals({ nodes }) {
  const sum = (of) => nodes.reduce((total, n) => total + (of(n) ?? 0), 0)
  const ready = nodes.filter((n) => n.Status === 'ready')
  const draining = nodes.filter((n) => n.Drain).length
  const rows = [
    ['Nodes', `${count(ready.length)} of ${count(nodes.length)} ready`, draining > 0 ? `${draining} draining` : '', percent(ready.length, nodes.length)],
    ['CPU allocated', ...share(sum((n) => n.Use?.CPU), sum((n) => n.NodeResources?.Cpu?.CpuShares), (v) => `${count(v)} MHz`)],
    ['Memory allocated', ...share(sum((n) => n.Use?.MemoryMB), sum((n) => n.NodeResources?.Memory?.MemoryMB), mebibytes)],
    ['Allocations', count(sum((n) => n.Use?.Allocations)), 'live on these nodes', null],
  ]
  return html`<dl class="totals">${rows.map(([term, value, detail, part]) => html`<div>
    <dt>${term}</dt><dd><span class="total">${value}</span> <span class="muted small">${detail}</span>
    ${part !== null && html`<span class="meter" aria-hidden="true"><span style=${{ width: `${part}%` }}></span></span>`}</dd></div>`)}</dl>`
}

const share = (used, all, show) => [`${percent(used, all)} %`, `${show(used)} of ${show(all)}`, Math.min(100, percent(used, all))]

function Nodes({ nodes, more }) {
  if (nodes.length === 0) return html`<${Section} title="Nodes"><${Empty}>No node has registered.<//><//>`
  return html`<${Section} title="Nodes"><${NodeMap} nodes=${nodes} />
    ${more && html`<p class="muted">The first ${count(MOST_NODES)} nodes are shown.</p>`}<//>`
}

function Deployments() {
  const { data } = useQuery(at`/v1/deployments`, {
    params: { namespace: '*', filter: 'Status == "running" or Status == "paused" or Status == "blocked"', per_page: MOST_ROWS, reverse: true }, topics: ['Deployment'],
  })
  const columns = [
    { label: 'Job', head: true, cell: (d) => html`<a href=${jobHref(d.JobID, d.Namespace, 'deployments')}><${Name} of=${d.JobID} /></a>` },
    { label: 'Status', kind: 'narrow', cell: (d) => html`<${Status} of=${d.Status} />` },
    { label: 'Healthy', kind: 'number', cell: (d) => healthOf(d) },
    { label: 'Description', cell: (d) => d.StatusDescription },
    { label: 'Began', kind: 'narrow', cell: (d) => html`<${Ago} at=${d.CreateTime} />` },
  ]
  return html`<${Attention} title="Active deployments" rows=${data} columns=${columns} />`
}

function healthOf(deployment) {
  const groups = Object.values(deployment.TaskGroups ?? {})
  const sum = (key) => groups.reduce((n, g) => n + g[key], 0)
  return `${sum('HealthyAllocs')} of ${sum('DesiredTotal')}`
}

function Blocked() {
  const { data } = useQuery(at`/v1/evaluations`, { params: { namespace: '*', filter: 'Status == "blocked"', per_page: MOST_ROWS, reverse: true }, topics: ['Evaluation'] })
  const columns = [
    { label: 'Job', head: true, cell: (e) => html`<a href=${jobHref(e.JobID, e.Namespace)}><${Name} of=${e.JobID} /></a>` },
    { label: 'Status', kind: 'narrow', cell: (e) => html`<${Status} of=${e.Status} />` },
    { label: 'Not placed', cell: (e) => Object.entries(e.FailedTGAllocs ?? {}).map(([group, m]) => html`<div>${plural(1 + (m.CoalescedFailures ?? 0), 'allocation')} of group <${Name} of=${group} /></div>`) },
    { label: 'Since', kind: 'narrow', cell: (e) => html`<${Ago} at=${e.CreateTime} />` },
  ]
  return html`<${Attention} title="Waiting for a node" rows=${data} columns=${columns} />`
}

function Failed() {
  const { data } = useQuery(at`/v1/allocations`, { params: { namespace: '*', filter: 'ClientStatus == "failed" or ClientStatus == "lost"', per_page: MOST_ROWS, reverse: true }, topics: ['Allocation'], gap: 3000 })
  const columns = [
    { label: 'Job', head: true, cell: (a) => html`<a href=${jobHref(a.JobID, a.Namespace, 'allocations')}><${Name} of=${a.JobID} /></a>` },
    { label: 'Allocation', kind: 'narrow', cell: (a) => html`<a href=${allocHref(a.ID)}><${Code} of=${shortID(a.ID)} /></a>` },
    { label: 'Status', kind: 'narrow', cell: (a) => html`<${Status} of=${a.ClientStatus} />` },
    { label: 'Node', cell: (a) => html`<${Name} of=${a.NodeName} />` },
    { label: 'Changed', kind: 'narrow', cell: (a) => html`<${Ago} at=${a.ModifyTime} />` },
  ]
  return html`<${Attention} title="Newest failed allocations" rows=${data} columns=${columns} />`
}

/** A list of what may need attention. It is left out if there is nothing. */
function Attention({ title, rows, columns }) {
  if (!rows?.length) return null
  return html`<${Section} title=${title}><${Table} caption=${title} columns=${columns} rows=${rows} rowKey=${(r) => r.ID} /><//>`
}
