// The list of binding rules: what a login gets.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { quote } from '../../lib/filter.js'
import { place } from '../../lib/router.js'
import { useStore } from '../../lib/store.js'
import { useQuery } from '../../lib/query.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'

const COLUMNS = [
  { label: 'Auth method', head: true, cell: (r) => html`<${Name} of=${r.AuthMethod} />` },
  { label: 'Rule', kind: 'wide', cell: (r) => html`<${Rule} id=${r.ID} />` },
  { label: 'Description', cell: (r) => html`<bdi>${r.Description}</bdi>` },
]

export function Rules() {
  const method = useStore(place).query.get('method')
  return html`<p>What a login gets if its claims match. A login that matches no rule is refused.</p>
    <${List} path=${at`/v1/acl/binding-rules`} what="binding rules" columns=${COLUMNS} rowKey=${(r) => r.ID} filter=${method ? `AuthMethod == ${quote(method)}` : ''} topics=${['ACLBindingRule']} />`
}

/** Lists have neither the selector nor what the rule grants: it is read by itself. */
function Rule({ id }) {
  const { data: r, error } = useQuery(at`/v1/acl/binding-rule/${id}`)
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`
  if (!r) return null
  const gets = r.BindType === 'management' ? 'a management token' : html`${r.BindType} <${Name} of=${r.BindName} />`
  return html`<div>${r.Selector ? html`If <${Code} of=${r.Selector} />: ` : 'Always: '}${gets}</div>`
}
