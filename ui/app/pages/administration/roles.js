// The list of ACL roles.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { policyHref } from '../../lib/links.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'

const COLUMNS = [
  { label: 'Name', head: true, cell: (r) => html`<${Name} of=${r.Name} /><div class="small muted"><${Code} of=${r.ID} /></div>` },
  { label: 'Description', cell: (r) => html`<bdi>${r.Description}</bdi>` },
  { label: 'Policies', cell: (r) => (r.Policies ?? []).map((p) => html`<span class="tag"><a href=${policyHref(p.Name)}><${Name} of=${p.Name} /></a></span> `) },
]

export function Roles() {
  return html`<${List} path=${at`/v1/acl/roles`} what="roles" columns=${COLUMNS} rowKey=${(r) => r.ID} search=${['Name', 'Description']} topics=${['ACLRole']} />`
}
