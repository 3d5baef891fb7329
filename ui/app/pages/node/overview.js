// The overview of a node: its state, its use, its drivers, volumes and networks, its identity and its events.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { allocHref, pluginHref, poolHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { Code, Name } from '../../parts/name.js'
import { levelOf } from '../../parts/nodemap.js'
import { Facts, Section } from '../../parts/page.js'
import { Status } from '../../parts/status.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'
import { Draining } from './drain.js'
import { Identity } from './identity.js'
import { Use } from './use.js'

const name = (text) => (text ? html`<${Name} of=${text} />` : null)
const byName = (map) => Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => ({ name, ...value }))

export function Overview({ node }) {
  const stub = useQuery(at`/v1/nodes`, { params: { prefix: node.ID, use: true }, topics: ['Allocation', `Node:${node.ID}`], namespace: '*', gap: 3000 })
  const use = stub.data?.find((n) => n.ID === node.ID)?.Use
  const attributes = node.Attributes ?? {}
  return html`
    <${Draining} node=${node} live=${use?.Allocations} />
    <${Facts} rows=${[
      ['ID', html`<${Code} of=${node.ID} />`], ['Address', node.HTTPAddr && html`<${Code} of=${node.HTTPAddr} />`], ['Pool', html`<a href=${poolHref(node.NodePool)}><${Name} of=${node.NodePool} /></a>`],
      ['Datacenter', html`<${Name} of=${node.Datacenter} />`], ['Class', node.NodeClass && html`<${Name} of=${node.NodeClass} />`], ['Scheduling', node.SchedulingEligibility], ['Isolation', levelOf(node)],
      ['System', name([attributes['os.name'], attributes['os.version']].filter(Boolean).join(' '))], ['Kernel', name(attributes['kernel.version'])],
      ['Version', name(attributes['nomad.version'])], ['Status', html`${node.StatusDescription && html`<bdi>${node.StatusDescription}</bdi>, `}since <${Ago} at=${node.StatusUpdatedAt * 1e9} />`],
      ['Last drain', node.LastDrain && html`${node.LastDrain.Status}, <${Ago} at=${node.LastDrain.UpdatedAt} />`],
    ]} />
    <${Use} node=${node} use=${use} />
    <${Drivers} node=${node} /><${Volumes} node=${node} /><${Plugins} node=${node} /><${Networks} node=${node} /><${Identity} node=${node} /><${Events} node=${node} />`
}

const health = (x) => html`<${Status} of=${x.Healthy ? 'healthy' : 'unhealthy'} />`

const DRIVERS = [
  { label: 'Driver', head: true, cell: (d) => html`<${Name} of=${d.name} />` },
  { label: 'Health', kind: 'narrow', cell: (d) => (d.Detected || d.Healthy ? health(d) : html`<${Status} of="undetected" label="Not detected" icon="off" />`) },
  { label: 'Isolation', kind: 'narrow', cell: (d) => html`<${Name} of=${d.Attributes?.[`driver.${d.name}.level`] ?? '–'} />` },
  { label: 'Description', cell: (d) => html`<bdi>${d.HealthDescription}</bdi>` },
  { label: 'Changed', kind: 'narrow', cell: (d) => html`<${Ago} at=${d.UpdateTime} />` },
]

function Drivers({ node }) {
  const rows = byName(node.Drivers)
  if (rows.length === 0) return html`<${Section} title="Drivers"><p class="muted">This node has no driver, so that it runs no tasks.</p><//>`
  return html`<${Section} title="Drivers"><${Table} caption="Drivers" columns=${DRIVERS} rows=${rows} rowKey=${(d) => d.name} /><//>`
}

const VOLUMES = [
  { label: 'Volume', head: true, cell: (v) => html`<${Name} of=${v.name} />` },
  { label: 'Kind', kind: 'narrow', cell: (v) => (v.ID ? 'dynamic' : 'of the configuration') },
  { label: 'Access', kind: 'narrow', cell: (v) => (v.ReadOnly ? 'read' : 'read and write') },
  { label: 'Path', cell: (v) => html`<${Code} of=${v.Path} />` },
]

function Volumes({ node }) {
  const rows = byName(node.HostVolumes)
  if (rows.length === 0) return null
  return html`<${Section} title="Host volumes"><${Table} caption="Host volumes" columns=${VOLUMES} rows=${rows} rowKey=${(v) => v.name} /><//>`
}

const PLUGINS = [
  { label: 'Plugin', head: true, cell: (p) => html`<a href=${pluginHref(p.name)}><${Name} of=${p.name} /></a>` },
  { label: 'Kind', kind: 'narrow', cell: (p) => p.kind },
  { label: 'Health', kind: 'narrow', cell: health },
  { label: 'Allocation', cell: (p) => html`<a href=${allocHref(p.AllocID)}><${Code} of=${shortID(p.AllocID)} /></a>` },
  { label: 'Description', cell: (p) => html`<bdi>${p.HealthDescription}</bdi>` },
  { label: 'Changed', kind: 'narrow', cell: (p) => html`<${Ago} at=${p.UpdateTime} />` },
]

function Plugins({ node }) {
  const rows = [...byName(node.CSIControllerPlugins).map((p) => ({ ...p, kind: 'controller' })), ...byName(node.CSINodePlugins).map((p) => ({ ...p, kind: 'node' }))]
  if (rows.length === 0) return null
  return html`<${Section} title="CSI plugins"><${Table} caption="CSI plugins" columns=${PLUGINS} rows=${rows} rowKey=${(p) => `${p.kind} ${p.name}`} /><//>`
}

const NETWORKS = [
  { label: 'Network', head: true, cell: (n) => html`<${Name} of=${n.name} />` },
  { label: 'Addresses', cell: (n) => html`<${Code} of=${n.CIDR || n.Interface || '–'} />` },
  { label: 'Reserved ports', cell: (n) => html`<${Code} of=${n.ReservedPorts || '–'} />` },
]

function Networks({ node }) {
  const rows = byName(node.HostNetworks)
  if (rows.length === 0) return null
  return html`<${Section} title="Host networks"><${Table} caption="Host networks" columns=${NETWORKS} rows=${rows} rowKey=${(n) => n.name} /><//>`
}

function Events({ node }) {
  const events = [...(node.Events ?? [])].reverse()
  if (events.length === 0) return null
  return html`<${Section} title="Events"><ol class="events">${events.map((e) => html`<li>
    <span class="event-time muted"><${Ago} at=${e.Timestamp} /></span><strong>${e.Subsystem}</strong>
    <span><bdi>${e.Message}</bdi>${Object.entries(e.Details ?? {}).map(([key, value]) => html` <span class="tag"><${Name} of=${key} />: <${Name} of=${value} /></span>`)}</span></li>`)}</ol><//>`
}
