// One dynamic host volume.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { bytes, shortID } from '../lib/format.js'
import { nodeHref, parseJob, poolHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { allocColumns } from '../parts/allocations.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'

const CAPABILITIES = [
  { label: 'Access', head: true, cell: (c) => html`<${Name} of=${c.AccessMode} />` },
  { label: 'Attachment', cell: (c) => html`<${Name} of=${c.AttachmentMode} />` },
]

export default function HostVolume({ params }) {
  const { id, namespace } = parseJob(params.volume)
  const { data: v, error } = useQuery(at`/v1/volume/host/${id}`, { params: { namespace }, topics: [`HostVolume:${id}`, 'Allocation'], namespace })
  const allocs = v?.Allocations ?? []
  return html`<${Page} title=${v?.Name ?? shortID(id)} crumbs=${[{ href: '/ui/storage/volumes/dynamic', label: 'Host volumes' }]}
    status=${v && html`<${Status} of=${v.State} /><span class="tag">namespace <${Name} of=${v.Namespace} /></span>`}>
    <${Failure} error=${error} what="this volume" />
    ${!v && !error && html`<${Loading} />`}
    ${v && html`<${Facts} rows=${[
      ['ID', html`<${Code} of=${v.ID} />`], ['Plugin', v.PluginID && html`<${Name} of=${v.PluginID} />`], ['Node', html`<a href=${nodeHref(v.NodeID)}><${Code} of=${shortID(v.NodeID)} /></a>`],
      ['Pool', html`<a href=${poolHref(v.NodePool)}><${Name} of=${v.NodePool} /></a>`], ['Size', v.CapacityBytes > 0 ? bytes(v.CapacityBytes) : null], ['Path', html`<${Code} of=${v.HostPath} />`],
      ['Created', html`<${Ago} at=${v.CreateTime} />`],
    ]} />
    <${Section} title="Allocations">${allocs.length > 0
      ? html`<${Table} caption="Allocations" columns=${allocColumns(['node'])} rows=${allocs} rowKey=${(a) => a.ID} />`
      : html`<p class="muted">No allocation uses this volume.</p>`}<//>
    <${Section} title="Capabilities"><${Table} caption="Capabilities" columns=${CAPABILITIES} rows=${v.RequestedCapabilities ?? []} rowKey=${(c) => `${c.AccessMode} ${c.AttachmentMode}`} /><//>`}
  <//>`
}
