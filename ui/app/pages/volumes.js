// The list of CSI volumes, and that of dynamic host volumes.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { bytes, shortID } from '../lib/format.js'
import { hostVolumeHref, nodeHref, poolHref } from '../lib/links.js'
import { href, place } from '../lib/router.js'
import { List } from '../parts/list.js'
import { Code, Name } from '../parts/name.js'
import { Page, Tabs } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { VOLUME_FACETS, VOLUME_SEARCH, volumeColumns } from '../parts/volumes.js'

const HOST = [
  { label: 'Volume', head: true, cell: (v) => html`<a href=${hostVolumeHref(v.ID, v.Namespace)}><${Name} of=${v.Name} /></a><div class="muted small"><${Code} of=${shortID(v.ID)} /></div>` },
  { label: 'Namespace', cell: (v) => html`<${Name} of=${v.Namespace} />` },
  { label: 'State', kind: 'narrow', cell: (v) => html`<${Status} of=${v.State} />` },
  { label: 'Plugin', cell: (v) => html`<${Name} of=${v.PluginID || '–'} />` },
  { label: 'Node', cell: (v) => html`<a href=${nodeHref(v.NodeID)}><${Code} of=${shortID(v.NodeID)} /></a>` },
  { label: 'Pool', cell: (v) => html`<a href=${poolHref(v.NodePool)}><${Name} of=${v.NodePool} /></a>` },
  { label: 'Size', kind: 'number', cell: (v) => (v.CapacityBytes > 0 ? bytes(v.CapacityBytes) : '–') },
]

const STATES = [{ key: 'state', label: 'State', options: ['pending', 'ready', 'unavailable'].map((s) => ({ value: s, label: s[0].toUpperCase() + s.slice(1), filter: `State == "${s}"` })) }]

export default function Volumes() {
  const links = [{ href: href('/ui/storage/volumes'), label: 'CSI volumes' }, { href: href('/ui/storage/volumes/dynamic'), label: 'Host volumes' }]
  const host = place.value.path.endsWith('/dynamic')
  return html`<${Page} title="Volumes" tabs=${html`<${Tabs} label="Kinds of volumes" tabs=${links} current=${links[host ? 1 : 0].href} />`}>
    ${host
      ? html`<${List} key="host" path=${at`/v1/volumes`} what="host volumes" params=${{ type: 'host' }} columns=${HOST} rowKey=${(v) => `${v.Namespace}/${v.ID}`} search=${['Name', 'ID', 'PluginID', 'NodeID']}
        facets=${STATES} namespaced topics=${['HostVolume']} empty=${html`<p>There are no dynamic host volumes.</p><p><code>nomad volume create</code> makes one. Volumes of the configuration of a node are on its page.</p>`} />`
      : html`<${List} key="csi" path=${at`/v1/volumes`} what="CSI volumes" params=${{ type: 'csi' }} columns=${volumeColumns()} rowKey=${(v) => `${v.Namespace}/${v.ID}`} search=${VOLUME_SEARCH}
        facets=${VOLUME_FACETS} namespaced topics=${['CSIVolume', 'CSIPlugin']} empty=${html`<p>No CSI volume is registered.</p><p><code>nomad volume create</code> makes one with a <a href=${href('/ui/storage/plugins')}>CSI plugin</a>.</p>`} />`}
  <//>`
}
