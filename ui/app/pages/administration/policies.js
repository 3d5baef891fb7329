// The list of ACL policies.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { policyHref } from '../../lib/links.js'
import { href } from '../../lib/router.js'
import { List } from '../../parts/list.js'
import { Name } from '../../parts/name.js'
import { appliesTo } from './grants.js'

const COLUMNS = [
  { label: 'Name', head: true, cell: (p) => html`<a href=${policyHref(p.Name)}><${Name} of=${p.Name} /></a>` },
  { label: 'Description', cell: (p) => html`<bdi>${p.Description}</bdi>` },
  { label: 'Also applies to', cell: (p) => html`<bdi>${appliesTo(p.JobACL)}</bdi>` },
]

export function Policies() {
  return html`<p><a class="button primary" href=${href('/ui/administration/policies/new')}>Create a policy</a></p>
    <${List} path=${at`/v1/acl/policies`} what="policies" columns=${COLUMNS} rowKey=${(p) => p.Name} search=${['Name', 'Description']} topics=${['ACLPolicy']} />`
}
