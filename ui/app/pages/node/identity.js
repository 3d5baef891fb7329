// The identity of a node: the token by which it signs in to the servers.
import { html } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { useQuery } from '../../lib/query.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { Code, Name } from '../../parts/name.js'
import { Facts, Section } from '../../parts/page.js'
import { Ago } from '../../parts/time.js'

export function Identity({ node }) {
  // The servers store only the ID of the key, so the node is asked.
  const { data, error, refresh } = useQuery(node.Status === 'ready' ? at`/v1/client/identity` : null, { params: { node_id: node.ID }, topics: [`Node:${node.ID}`], namespace: '*' })
  const claims = data?.Claims ?? {}
  const renew = async () => {
    await api.put(at`/v1/client/identity/renew`, { NodeID: node.ID }, { node_id: node.ID })
    await refresh()
  }
  const actions = data && html`<${DialogButton} label="Renew" dialog=${(close) => html`<${Dialog} title="Renew the identity?" action="Renew" onClose=${close} onConfirm=${renew}>
    <p>The node requests a new token with its next heartbeat. The old one stays valid until it expires.</p><//>`} />`
  const time = (seconds) => (seconds ? html`<${Ago} at=${seconds * 1e9} />` : null)
  return html`<${Section} title="Identity" actions=${actions}>
    <${Facts} rows=${[
      ['Signing key', node.IdentitySigningKeyID ? html`<${Code} of=${node.IdentitySigningKeyID} />` : 'none: the node signs in by its secret'],
      ['Subject', claims.sub && html`<${Code} of=${claims.sub} />`], ['Audience', claims.aud && html`<${Name} of=${[claims.aud].flat().join(', ')} />`],
      ['Issued', time(claims.iat)], ['Expires', time(claims.exp)],
    ]} />
    ${error && html`<p class="muted">The node does not report its token: ${error.message}</p>`}
  <//>`
}
