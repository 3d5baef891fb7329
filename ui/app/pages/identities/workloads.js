// The identities of tasks and services, by job.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { nanoseconds } from '../../lib/format.js'
import { jobHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'

const COLUMNS = [
  { label: 'Job', head: true, cell: (j) => html`<a href=${jobHref(j.ID, j.Namespace)}><${Name} of=${j.ID} /></a>` },
  { label: 'Namespace', cell: (j) => html`<${Name} of=${j.Namespace} />` },
  { label: 'Identities', kind: 'wide', cell: (j) => html`<${Identities} id=${j.ID} namespace=${j.Namespace} />` },
]

export function Workloads() {
  return html`<p>Each task of an allocation has a default identity, which is valid as long as the allocation. The task sees it only with <code>env</code> or <code>file</code>.
      Named identities are renewed after half of their lifetime.</p>
    <${List} path=${at`/v1/jobs`} what="jobs" columns=${COLUMNS} rowKey=${(j) => `${j.Namespace} ${j.ID}`} filter='Status != "dead"' search=${['ID', 'Name']} namespaced topics=${['Job']} />`
}

/** All identities of a job: {holder, name, audience, ttl, places}. */
function identitiesOf(job) {
  const of = (holder, id) => ({
    holder, name: id.Name || 'default', audience: id.Audience ?? [], ttl: id.TTL ?? 0,
    places: [id.Env && 'env', id.File && (id.Filepath || 'file')].filter(Boolean),
  })
  const services = (holder, list) => (list ?? []).filter((s) => s.Identity).map((s) => of(`${holder}, service ${s.Name}`, s.Identity))
  return (job.TaskGroups ?? []).flatMap((g) => [
    ...services(g.Name, g.Services),
    ...(g.Tasks ?? []).flatMap((t) => [of(`${g.Name}/${t.Name}`, t.Identity ?? {}), ...(t.Identities ?? []).map((id) => of(`${g.Name}/${t.Name}`, id)), ...services(`${g.Name}/${t.Name}`, t.Services)]),
  ])
}

function Identities({ id, namespace }) {
  const { data, error } = useQuery(at`/v1/job/${id}`, { params: { namespace } })
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`
  return html`<ul class="grants">${data && identitiesOf(data).map((i) => html`<li><${Name} of=${i.holder} />: <${Code} of=${i.name} />${i.audience.length > 0 && html` for <bdi>${i.audience.join(', ')}</bdi>`},
    ${' '}valid ${i.ttl > 0 ? `${nanoseconds(i.ttl)}, renewed` : 'as long as the allocation'}${i.places.length > 0 && html`, in <bdi>${i.places.join(' and ')}</bdi>`}</li>`)}</ul>`
}
