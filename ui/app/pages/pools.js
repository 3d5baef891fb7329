// The list of node pools.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { nanoseconds } from '../lib/format.js'
import { poolHref } from '../lib/links.js'
import { DialogButton } from '../parts/dialog.js'
import { List } from '../parts/list.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { BUILT_IN, DeleteDialog, PoolDialog } from './pools/dialog.js'

// The list is read again by the events of node pools.
const done = async () => {}

const COLUMNS = [
  { label: 'Pool', head: true, cell: (p) => html`<a href=${poolHref(p.Name)}><${Name} of=${p.Name} /></a>` },
  { label: 'Description', cell: (p) => html`<bdi>${p.Description || '–'}</bdi>` },
  { label: 'Scheduler', cell: (p) => schedulerOf(p.SchedulerConfiguration) },
  { label: 'Lifetime of node identities', kind: 'narrow', cell: (p) => (p.NodeIdentityTTL ? nanoseconds(p.NodeIdentityTTL) : '–') },
  { label: 'Metadata', cell: (p) => Object.entries(p.Meta ?? {}).map(([key, value]) => html`<span class="tag"><${Name} of=${key} /> = <${Name} of=${value} /></span> `) },
  { label: 'Actions', kind: 'narrow', cell: (p) => (BUILT_IN.includes(p.Name) ? html`<span class="muted">built in</span>` : html`<div class="actions">
    <${DialogButton} label="Change" dialog=${(close) => html`<${PoolDialog} pool=${p} onClose=${close} onDone=${done} />`} />
    <${DialogButton} label="Delete" danger dialog=${(close) => html`<${DeleteDialog} pool=${p} onClose=${close} onDone=${done} />`} /></div>`) },
]

/** What a pool changes in the configuration of the scheduler. */
function schedulerOf(config) {
  const over = config?.MemoryOversubscriptionEnabled
  return [config?.SchedulerAlgorithm, over === true && 'memory oversubscription', over === false && 'no memory oversubscription'].filter(Boolean).join(', ') || 'as the cluster'
}

export default function Pools() {
  return html`<${Page} title="Node pools" actions=${html`<${DialogButton} label="Create" primary dialog=${(close) => html`<${PoolDialog} onClose=${close} onDone=${done} />`} />`}>
    <p class="muted">A node is a member of the pool in its configuration (<code>client.node_pool</code>). All nodes are members of the pool <code>all</code>, too.</p>
    <${List} path=${at`/v1/node/pools`} what="node pools" columns=${COLUMNS} rowKey=${(p) => p.Name} search=${['Name', 'Description']} topics=${['NodePool']} />
  <//>`
}
