// The identities of nodes. The servers do not store when they expire: each node of the page is asked.
import { html, useEffect, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { nodeHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'
import { Status } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'

const EARLIEST = 'node_identity.earliest_expiry'

export function Nodes() {
  const [ends, setEnds] = useState({}) // Unix seconds by node
  const [renewed, setRenewed] = useState({}) // how often, by node
  const columns = [
    { label: 'Node', head: true, cell: (n) => html`<a href=${nodeHref(n.ID)}><${Name} of=${n.Name} /></a><div class="small muted"><${Code} of=${shortID(n.ID)} /></div>` },
    { label: 'Status', kind: 'narrow', cell: (n) => html`<${Status} of=${n.Status} />` },
    { label: 'Pool', cell: (n) => html`<${Name} of=${n.NodePool} />` },
    { label: 'Identity', cell: (n) => (n.Status === 'ready'
      ? html`<${Identity} key=${`${n.ID} ${renewed[n.ID] ?? 0}`} id=${n.ID} onEnd=${(end) => setEnds((old) => ({ ...old, [n.ID]: end }))} />`
      : html`<span class="muted">not known while the node does not answer</span>`) },
    { label: 'Actions', kind: 'narrow', cell: (n) => n.Status === 'ready' && html`<${DialogButton} label="Renew" dialog=${(close) => html`<${Renew} node=${n} onClose=${close} onDone=${() => setRenewed((old) => ({ ...old, [n.ID]: (old[n.ID] ?? 0) + 1 }))} />`} />` },
  ]
  return html`<${Earliest} ends=${ends} />
    <${List} path=${at`/v1/nodes`} what="nodes" columns=${columns} rowKey=${(n) => n.ID} search=${['Name', 'ID']} topics=${['Node']} />`
}

/** The earliest expiry of the fleet, if this agent is the leader, which measures it; else that of the nodes of the page. */
function Earliest({ ends }) {
  const { data } = useQuery(at`/v1/metrics`)
  const gauge = (data?.Gauges ?? []).find((g) => g.Name.endsWith(EARLIEST))
  const listed = Object.values(ends).filter(Boolean)
  const [read, setRead] = useState(0)
  useEffect(() => setRead(Date.now()), [data])
  if (gauge) return html`<p>Earliest expiry of the fleet: <strong><${Ago} at=${new Date(read + gauge.Value * 1000).toISOString()} /></strong></p>`
  if (listed.length === 0) return null
  return html`<p>Earliest expiry of the nodes below: <strong><${Ago} at=${timeOf(Math.min(...listed))} /></strong>
    <span class="muted"> That of the whole fleet is the metric <code class="name">nomad.nomad.${EARLIEST}</code> of the leader.</span></p>`
}

const timeOf = (seconds) => new Date(seconds * 1000).toISOString()

function Identity({ id, onEnd }) {
  const { data, error } = useQuery(at`/v1/client/identity`, { params: { node_id: id } })
  const claims = data?.Claims
  useEffect(() => { if (claims) onEnd(claims.exp) }, [claims?.exp])
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`
  if (!claims) return null
  return html`<div>${claims.exp ? html`expires <${Ago} at=${timeOf(claims.exp)} />` : 'does not expire'}</div>
    <div class="small muted">issued ${claims.iat ? html`<${Ago} at=${timeOf(claims.iat)} />` : '–'} for <bdi>${[claims.aud].flat().join(', ')}</bdi></div>
    <div class="small muted"><bdi>${claims.sub}</bdi></div>`
}

function Renew({ node, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/client/identity/renew`, undefined, { node_id: node.ID })
    onDone()
  }
  return html`<${Dialog} title="Renew the identity?" action="Renew" onClose=${onClose} onConfirm=${confirm}>
    <p>Node <strong><${Name} of=${node.Name} /></strong> gets a new identity with its next heartbeat. Its tasks go on.</p>
  <//>`
}
