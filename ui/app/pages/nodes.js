// The list of nodes.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { quote } from '../lib/filter.js'
import { count, percent, shortID } from '../lib/format.js'
import { nodeHref, poolHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { List } from '../parts/list.js'
import { Code, Name } from '../parts/name.js'
import { levelOf, nodeStatus } from '../parts/nodemap.js'
import { Page } from '../parts/page.js'
import { Status } from '../parts/status.js'

const MOST_POOLS = 200 // in the choice of a pool

const FACETS = [
  { key: 'status', label: 'Status', options: ['ready', 'initializing', 'down', 'disconnected'].map((s) => ({ value: s, label: s[0].toUpperCase() + s.slice(1), filter: `Status == "${s}"` })) },
  { key: 'scheduling', label: 'Scheduling', options: [
    { value: 'eligible', label: 'Eligible', filter: 'SchedulingEligibility == "eligible"' },
    { value: 'ineligible', label: 'Ineligible', filter: 'SchedulingEligibility == "ineligible"' },
    { value: 'draining', label: 'Draining', filter: 'DrainStrategy is not nil' }] },
]

const share = (used, all) => (all > 0 ? html`<span class="share">${percent(used ?? 0, all)} %<span class="meter" aria-hidden="true"><span style=${{ width: `${Math.min(100, percent(used ?? 0, all))}%` }}></span></span></span>` : '–')

const COLUMNS = [
  { label: 'Node', head: true, cell: (n) => html`<a href=${nodeHref(n.ID)}><${Name} of=${n.Name} /></a><div class="muted small"><${Code} of=${shortID(n.ID)} /> <${Name} of=${n.Address} /></div>` },
  { label: 'Status', kind: 'narrow', cell: (n) => html`<${Status} of=${nodeStatus(n)} />` },
  { label: 'CPU', kind: 'narrow', cell: (n) => share(n.Use?.CPU, n.NodeResources?.Cpu?.CpuShares) },
  { label: 'Memory', kind: 'narrow', cell: (n) => share(n.Use?.MemoryMB, n.NodeResources?.Memory?.MemoryMB) },
  { label: 'Allocations', kind: 'number', cell: (n) => (n.Use ? count(n.Use.Allocations) : '–') },
  { label: 'Isolation', kind: 'narrow', cell: levelOf },
  { label: 'Pool', cell: (n) => html`<a href=${poolHref(n.NodePool)}><${Name} of=${n.NodePool} /></a>` },
  { label: 'Datacenter', cell: (n) => html`<${Name} of=${n.Datacenter} />` },
  { label: 'Class', cell: (n) => html`<${Name} of=${n.NodeClass || '–'} />` },
  { label: 'Version', kind: 'narrow', cell: (n) => html`<${Name} of=${n.Version} />` },
]

export default function Nodes({ query }) {
  const pools = useQuery(at`/v1/node/pools`, { params: { per_page: MOST_POOLS, filter: 'Name != "all"' } })
  const chosen = query.get('pool')
  const names = new Set([...(pools.data ?? []).map((p) => p.Name), ...(chosen ? [chosen] : [])])
  const options = [...names].map((name) => ({ value: name, label: name, filter: `NodePool == ${quote(name)}` }))
  const facets = [...FACETS, { key: 'pool', label: 'Pool', options }]
  return html`<${Page} title="Nodes">
    ${(pools.data || pools.error) && html`<${List} path=${at`/v1/nodes`} what="nodes" params=${{ resources: true, use: true }} columns=${COLUMNS} rowKey=${(n) => n.ID} search=${['Name', 'ID', 'HTTPAddr', 'NodeClass', 'Datacenter']}
      facets=${facets} topics=${['Node', 'Allocation']} empty=${html`<p>No node has registered.</p><p>An agent with a <code>client</code> block is a node.</p>`} />`}
  <//>`
}
