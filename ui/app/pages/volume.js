// One CSI volume: what it is, who uses it, and the claims that are being released.
import { html } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { bytes, segments, shortID } from '../lib/format.js'
import { allocHref, nodeHref, parseJob, pluginHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { allocColumns } from '../parts/allocations.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { healthyOf, volumeStatus } from '../parts/volumes.js'

export default function Volume({ params }) {
  const { id, namespace } = parseJob(params.volume)
  const { data: volume, error, refresh } = useQuery(at`/v1/volume/csi/${id}`, { params: { namespace }, topics: [`CSIVolume:${id}`, 'CSIPlugin', 'Allocation'], namespace })
  return html`<${Page} title=${volume?.ID ?? id} crumbs=${[{ href: '/ui/storage/volumes', label: 'Volumes' }]}
    status=${volume && html`${volumeStatus(volume)}<span class="tag">CSI</span><span class="tag">namespace <${Name} of=${namespace} /></span>`}>
    <${Failure} error=${error} what="this volume" />
    ${!volume && !error && html`<${Loading} />`}
    ${volume && html`<${About} volume=${volume} /><${Releases} volume=${volume} refresh=${refresh} />
      <${Section} title="Allocations">${(volume.Allocations ?? []).length > 0
        ? html`<${Table} caption="Allocations" columns=${allocColumns()} rows=${volume.Allocations} rowKey=${(a) => a.ID} />`
        : html`<p class="muted">No allocation uses this volume.</p>`}<//>
      <${Modes} volume=${volume} />`}
  <//>`
}

function About({ volume: v }) {
  const options = [v.MountOptions?.FSType, ...(v.MountOptions?.MountFlags ?? [])].filter(Boolean).join(', ')
  return html`<${Facts} rows=${[
    ['Name', v.Name && html`<${Name} of=${v.Name} />`], ['In the storage system', v.ExternalID && html`<${Code} of=${v.ExternalID} />`],
    ['Plugin', html`<a href=${pluginHref(v.PluginID)}><${Name} of=${v.PluginID} /></a>`], ['Provider', v.Provider && html`<${Name} of=${v.Provider} /> <${Name} of=${v.ProviderVersion} />`],
    ['Healthy controllers', v.ControllerRequired ? healthyOf(v.ControllersHealthy, v.ControllersExpected) : null], ['Healthy nodes', healthyOf(v.NodesHealthy, v.NodesExpected)],
    ['Size', v.Capacity > 0 ? bytes(v.Capacity) : null], ['Access now', v.AccessMode && html`<${Name} of=${v.AccessMode} />`], ['Attachment now', v.AttachmentMode && html`<${Name} of=${v.AttachmentMode} />`],
    ['Mount options', options && html`<${Code} of=${options} />`], ['Accessible from', (v.Topologies ?? []).map(segments).filter(Boolean).map((text) => html`<span class="tag"><${Name} of=${text} /></span> `)],
    ['Created', v.CreateTime > 0 ? html`<${Ago} at=${v.CreateTime} />` : null],
  ].filter(([, value]) => !Array.isArray(value) || value.length > 0)} />`
}

/** The claims of ended allocations, what each waits for, and how to end the wait. */
function Releases({ volume, refresh }) {
  const rows = volume.Releases ?? []
  if (rows.length === 0) return null
  const columns = [
    { label: 'Allocation', head: true, cell: (r) => html`<a href=${allocHref(r.AllocID)}><${Code} of=${shortID(r.AllocID)} /></a>` },
    { label: 'Node', kind: 'narrow', cell: (r) => r.NodeID && html`<a href=${nodeHref(r.NodeID)}><${Code} of=${shortID(r.NodeID)} /></a>` },
    { label: 'State', kind: 'narrow', cell: (r) => html`<${Status} of=${r.State} />` },
    { label: 'Since', kind: 'narrow', cell: (r) => html`<${Ago} at=${r.Since} />` },
    { label: 'Waits for', kind: 'wide', cell: (r) => html`<bdi>${r.Waits || 'the next step'}</bdi>${r.Command && html`<div>Run next: <${Code} of=${r.Command} /></div>`}` },
    { label: 'Actions', kind: 'narrow', cell: (r) => r.NodeID && html`<${DialogButton} label="Try now" dialog=${(close) => html`<${Detach} volume=${volume} node=${r.NodeID} onClose=${close} onDone=${refresh} />`} />` },
  ]
  return html`<${Section} title="Claims being released">
    <p class="muted">These allocations have ended. Until the volume is unmounted and detached, they count as its users.</p>
    <${Table} caption="Claims being released" columns=${columns} rows=${rows} rowKey=${(r) => r.AllocID} />
  <//>`
}

function Detach({ volume, node, onClose, onDone }) {
  async function confirm() {
    await api.del(at`/v1/volume/csi/${volume.ID}/detach`, { namespace: volume.Namespace, node })
    await onDone()
  }
  return html`<${Dialog} title="Release the claims now?" action="Release" onClose=${onClose} onConfirm=${confirm}>
    <p>The servers unmount and detach <strong><${Name} of=${volume.ID} /></strong> from node <${Code} of=${shortID(node)} />, for allocations that have ended. Running allocations keep the volume.</p>
  <//>`
}

const MODES = [
  { label: 'Access', head: true, cell: (c) => html`<${Name} of=${c.AccessMode} />` },
  { label: 'Attachment', cell: (c) => html`<${Name} of=${c.AttachmentMode} />` },
]

/** The ways in which jobs may use the volume. */
function Modes({ volume }) {
  const rows = volume.RequestedCapabilities ?? []
  if (rows.length === 0) return null
  return html`<${Section} title="Capabilities"><${Table} caption="Capabilities" columns=${MODES} rows=${rows} rowKey=${(c) => `${c.AccessMode} ${c.AttachmentMode}`} /><//>`
}
