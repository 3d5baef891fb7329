// The list of CSI plugins.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { pluginHref } from '../lib/links.js'
import { List } from '../parts/list.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { healthyOf } from '../parts/volumes.js'

/** A plugin is healthy if all its instances are, and degraded if some are. */
function healthOf(p) {
  const healthy = p.NodesHealthy + p.ControllersHealthy
  if (healthy === 0) return 'unhealthy'
  return p.NodesHealthy < p.NodesExpected || p.ControllersHealthy < p.ControllersExpected ? 'degraded' : 'healthy'
}

const COLUMNS = [
  { label: 'Plugin', head: true, cell: (p) => html`<a href=${pluginHref(p.ID)}><${Name} of=${p.ID} /></a>` },
  { label: 'Health', kind: 'narrow', cell: (p) => html`<${Status} of=${healthOf(p)} />` },
  { label: 'Provider', cell: (p) => html`<${Name} of=${p.Provider || '–'} />` },
  { label: 'Healthy controllers', kind: 'narrow', cell: (p) => (p.ControllerRequired || p.ControllersExpected > 0 ? healthyOf(p.ControllersHealthy, p.ControllersExpected) : '–') },
  { label: 'Healthy nodes', kind: 'narrow', cell: (p) => healthyOf(p.NodesHealthy, p.NodesExpected) },
]

export default function Plugins() {
  return html`<${Page} title="CSI plugins">
    <p class="muted">A task with a <code>csi_plugin</code> block attaches the volumes of a storage system to its node.</p>
    <${List} path=${at`/v1/plugins`} what="CSI plugins" params=${{ type: 'csi' }} columns=${COLUMNS} rowKey=${(p) => p.ID} search=${['ID', 'Provider']} topics=${['CSIPlugin']} />
  <//>`
}
