// One CSI plugin: its instances, jobs, volumes, and what it can do.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { quote } from '../lib/filter.js'
import { count, segments, shortID } from '../lib/format.js'
import { allocHref, jobHref, nodeHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { List } from '../parts/list.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { healthyOf, VOLUME_FACETS, VOLUME_SEARCH, volumeColumns } from '../parts/volumes.js'

export default function Plugin({ params }) {
  const { data: plugin, error } = useQuery(at`/v1/plugin/csi/${params.plugin}`, { params: { namespace: '*' }, topics: [`CSIPlugin:${params.plugin}`], namespace: '*' })
  return html`<${Page} title=${params.plugin} crumbs=${[{ href: '/ui/storage/plugins', label: 'CSI plugins' }]}>
    <${Failure} error=${error} what="this plugin" />
    ${!plugin && !error && html`<${Loading} />`}
    ${plugin && html`<${Facts} rows=${[
      ['Provider', plugin.Provider && html`<${Name} of=${plugin.Provider} />`], ['Version', plugin.Version && html`<${Name} of=${plugin.Version} />`],
      ['Healthy controllers', plugin.ControllersExpected > 0 || plugin.ControllerRequired ? healthyOf(plugin.ControllersHealthy, plugin.ControllersExpected) : null],
      ['Healthy nodes', healthyOf(plugin.NodesHealthy, plugin.NodesExpected)], ['Controllers can', words(sample(plugin.Controllers)?.ControllerInfo, CONTROLLER)], ['Nodes can', words(sample(plugin.Nodes)?.NodeInfo, NODE)],
    ]} />
    <${Instances} plugin=${plugin} /><${Jobs} plugin=${plugin} />
    <${Section} title="Volumes"><${List} path=${at`/v1/volumes`} what="volumes" params=${{ type: 'csi' }} filter=${`PluginID == ${quote(params.plugin)}`} columns=${volumeColumns(['plugin'])}
      rowKey=${(v) => `${v.Namespace}/${v.ID}`} search=${VOLUME_SEARCH.slice(0, 3)} facets=${VOLUME_FACETS} namespaced topics=${['CSIVolume']} /><//>`}
  <//>`
}

const CONTROLLER = {
  SupportsCreateDelete: 'create and delete volumes', SupportsAttachDetach: 'attach volumes', SupportsListVolumes: 'list volumes', SupportsCreateDeleteSnapshot: 'make snapshots',
  SupportsListSnapshots: 'list snapshots', SupportsClone: 'clone volumes', SupportsExpand: 'expand volumes', SupportsReadOnlyAttach: 'attach read-only',
}
const NODE = { RequiresNodeStageVolume: 'stage volumes', SupportsExpand: 'expand volumes', SupportsStats: 'report the use of volumes', SupportsCondition: 'report the condition of volumes' }

/** Any healthy instance, or else any: all should have the same capabilities. */
const sample = (instances) => Object.values(instances ?? {}).sort((a, b) => Number(b.Healthy) - Number(a.Healthy))[0]

const words = (info, names) => (info ? Object.keys(names).filter((key) => info[key]).map((key) => html`<span class="tag">${names[key]}</span> `) : null)

const INSTANCES = [
  { label: 'Node', head: true, cell: (i) => html`<a href=${nodeHref(i.node)}><${Code} of=${shortID(i.node)} /></a>` },
  { label: 'Kind', kind: 'narrow', cell: (i) => i.kind },
  { label: 'Health', kind: 'narrow', cell: (i) => html`<${Status} of=${i.Healthy ? 'healthy' : 'unhealthy'} />` },
  { label: 'Description', kind: 'wide', cell: (i) => html`<bdi>${i.HealthDescription}</bdi>` },
  { label: 'Allocation', cell: (i) => html`<a href=${allocHref(i.AllocID)}><${Code} of=${shortID(i.AllocID)} /></a>` },
  { label: 'Volumes at most', kind: 'number', cell: (i) => limit(i.NodeInfo?.MaxVolumes) },
  { label: 'Location', cell: (i) => html`<${Name} of=${segments(i.NodeInfo?.AccessibleTopology) || '–'} />` },
  { label: 'Changed', kind: 'narrow', cell: (i) => html`<${Ago} at=${i.UpdateTime} />` },
]

/** The number of volumes of a node. Plugins without a limit report the largest number. */
const limit = (n) => (n > 0 && n < 1e9 ? count(n) : '–')

function Instances({ plugin }) {
  const of = (map, kind) => Object.entries(map ?? {}).map(([node, info]) => ({ ...info, node, kind }))
  const rows = [...of(plugin.Controllers, 'controller'), ...of(plugin.Nodes, 'node')].sort((a, b) => Number(a.Healthy) - Number(b.Healthy))
  return html`<${Section} title="Instances">${rows.length > 0
    ? html`<${Table} caption="Instances" columns=${INSTANCES} rows=${rows} rowKey=${(i) => `${i.kind} ${i.node}`} />`
    : html`<p class="muted">No node runs this plugin.</p>`}<//>`
}

const JOBS = [
  { label: 'Job', head: true, cell: (j) => html`<a href=${jobHref(j.ID, j.Namespace)}><${Name} of=${j.ID} /></a>` },
  { label: 'Namespace', cell: (j) => html`<${Name} of=${j.Namespace} />` },
  { label: 'Kind', kind: 'narrow', cell: (j) => j.kind },
  { label: 'Instances', kind: 'number', cell: (j) => count(j.Expected) },
]

function Jobs({ plugin }) {
  const of = (jobs, kind) => Object.values(jobs ?? {}).flatMap((byID) => Object.values(byID)).map((j) => ({ ...j, kind }))
  const rows = [...of(plugin.ControllerJobs, 'controller'), ...of(plugin.NodeJobs, 'node')]
  if (rows.length === 0) return null
  return html`<${Section} title="Jobs"><${Table} caption="Jobs" columns=${JOBS} rows=${rows} rowKey=${(j) => `${j.kind} ${j.Namespace} ${j.ID}`} /><//>`
}
