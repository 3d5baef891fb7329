// The list of auth methods. Their secrets are not in lists.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { List } from '../../parts/list.js'
import { Name } from '../../parts/name.js'

const COLUMNS = [
  { label: 'Name', head: true, cell: (m) => html`<${Name} of=${m.Name} />${m.Default && html` <span class="tag">default</span>`}` },
  { label: 'Type', kind: 'narrow', cell: (m) => m.Type },
  { label: 'Rules', cell: (m) => html`<a href=${`/ui/administration/binding-rules?method=${encodeURIComponent(m.Name)}`}>Binding rules of <${Name} of=${m.Name} /></a>` },
]

export function Methods() {
  return html`<p>Logins with tokens of an identity provider. <code>nomad acl auth-method create</code> makes one.</p>
    <${List} path=${at`/v1/acl/auth-methods`} what="auth methods" columns=${COLUMNS} rowKey=${(m) => m.Name} topics=${['ACLAuthMethod']} />`
}
