// The ACL tokens. Lists have no secrets; the secret of a new token is shown once.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { policyHref } from '../../lib/links.js'
import { session } from '../../lib/session.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Ago } from '../../parts/time.js'
import { CreateToken } from './create.js'

const FACETS = [
  { key: 'type', label: 'Type', options: ['client', 'management'].map((t) => ({ value: t, label: t, filter: `Type == "${t}"` })) },
  { key: 'scope', label: 'Scope', options: [{ value: 'local', label: 'this region', filter: 'Global == false' }, { value: 'global', label: 'all regions', filter: 'Global == true' }] },
]

const names = (list, to) => (list ?? []).map((n) => html`<span class="tag">${to ? html`<a href=${to(n)}><${Name} of=${n} /></a>` : html`<${Name} of=${n} />`}</span> `)

export function Tokens() {
  const [created, setCreated] = useState(null)
  const columns = [
    { label: 'Name', head: true, cell: (t) => html`<${Name} of=${t.Name || 'without a name'} /><div class="small muted"><${Code} of=${t.AccessorID} /></div>` },
    { label: 'Type', kind: 'narrow', cell: (t) => `${t.Type}${t.Global ? ', all regions' : ''}` },
    { label: 'Policies', cell: (t) => (t.Type === 'management' ? 'everything' : names(t.Policies, policyHref)) },
    { label: 'Roles', cell: (t) => names((t.Roles ?? []).map((r) => r.Name || shortID(r.ID))) },
    { label: 'Created', kind: 'narrow', cell: (t) => html`<${Ago} at=${t.CreateTime} />` },
    { label: 'Expires', kind: 'narrow', cell: (t) => (t.ExpirationTime ? html`<${Ago} at=${t.ExpirationTime} />` : 'never') },
    { label: 'Actions', kind: 'narrow', cell: (t) => html`<${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete} token=${t} onClose=${close} />`} />` },
  ]
  return html`
    ${created && html`<${Secret} token=${created} onDone=${() => setCreated(null)} />`}
    <p><${DialogButton} label="Create a token" primary dialog=${(close) => html`<${CreateToken} onClose=${close} onCreated=${setCreated} />`} /></p>
    <${List} path=${at`/v1/acl/tokens`} what="tokens" columns=${columns} rowKey=${(t) => t.AccessorID} search=${['Name', 'AccessorID']} facets=${FACETS} topics=${['ACLToken']} />`
}

/** The secret of a new token. It is in the document until the user has kept it, and never again. */
function Secret({ token, onDone }) {
  const [copied, setCopied] = useState(false)
  const copy = () => navigator.clipboard.writeText(token.SecretID).then(() => setCopied(true), () => setCopied(false))
  return html`<${Notice} tone="ok" title="The token was created." actions=${html`
      ${navigator.clipboard && html`<button type="button" class="button" onClick=${copy}>${copied ? 'Copied' : 'Copy the secret'}</button>`}
      <button type="button" class="button" onClick=${onDone}>I have kept it</button>`}>
    Keep its secret now: it cannot be shown again.<code class="secret">${token.SecretID}</code>
    Accessor ID <${Code} of=${token.AccessorID} />
  <//>`
}

function Delete({ token, onClose }) {
  const own = session.value.self?.AccessorID === token.AccessorID
  const confirm = () => api.del(at`/v1/acl/token/${token.AccessorID}`)
  return html`<${Dialog} title="Delete the token?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Whoever uses token <strong><${Name} of=${token.Name || shortID(token.AccessorID)} /></strong> is refused from then on.</p>
    ${own && html`<${Notice} tone="warn" title="This is your own token.">This window is signed out.<//>`}
  <//>`
}
