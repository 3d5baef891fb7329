// The tokens of tasks in Vault. The servers do not store them: each node of the page is asked.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { nanoseconds, shortID } from '../../lib/format.js'
import { nodeHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'
import { Ago } from '../../parts/time.js'

const COLUMNS = [
  { label: 'Node', head: true, cell: (n) => html`<a href=${nodeHref(n.ID)}><${Name} of=${n.Name} /></a><div class="small muted"><${Code} of=${shortID(n.ID)} /></div>` },
  { label: 'Tokens', kind: 'wide', cell: (n) => (n.Status === 'ready' ? html`<${Tokens} id=${n.ID} />` : html`<span class="muted">not known while the node does not answer</span>`) },
]

export function Vault() {
  return html`<p>Tasks with a <code>vault</code> block log in to Vault with their identity. A token is renewed until its task ends.</p>
    <${List} path=${at`/v1/nodes`} what="nodes" columns=${COLUMNS} rowKey=${(n) => n.ID} search=${['Name', 'ID']} topics=${['Node']} />`
}

const isSet = (time) => time && !time.startsWith('0001-')

function Tokens({ id }) {
  const { data, error } = useQuery(at`/v1/client/vault-tokens`, { params: { node_id: id } })
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`
  if (!data) return null
  if (data.length === 0) return html`<span class="muted">none</span>`
  return html`<ul class="grants">${data.map((t) => html`<li><${Name} of=${t.JobID} />, <${Code} of=${shortID(t.AllocID)} />, <${Name} of=${t.Task} />: ${life(t)}
    ${t.Error && html`<div class="small muted">last error <${Ago} at=${t.ErrorAt} />: <bdi>${t.Error}</bdi></div>`}</li>`)}</ul>`
}

function life(t) {
  if (!t.LoggedIn) return 'no token'
  if (!isSet(t.Expires)) return 'does not expire'
  return html`lease ${nanoseconds(t.Lease)}, expires <${Ago} at=${t.Expires} />${isSet(t.NextRenewal) ? html`, renewed <${Ago} at=${t.NextRenewal} />` : ', not renewed'}`
}
