// Who can get a token for an audience: the identities with it, and callers who can run a job with it.
import { html, useState } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { jobHref } from '../../lib/links.js'
import { pushQuery } from '../../lib/router.js'
import { session } from '../../lib/session.js'
import { useStore } from '../../lib/store.js'
import { useQuery } from '../../lib/query.js'
import { Field } from '../../parts/field.js'
import { Code, Name } from '../../parts/name.js'
import { Failure } from '../../parts/notice.js'
import { Section } from '../../parts/page.js'
import { Table } from '../../parts/table.js'

export function Audiences({ query }) {
  const audience = query.get('audience') ?? ''
  const namespace = query.get('namespace') || 'default'
  const [typed, setTyped] = useState({ audience, namespace })
  function submit(event) {
    event.preventDefault()
    pushQuery({ audience: typed.audience.trim() || null, namespace: typed.namespace.trim() || null })
  }
  return html`<form class="list-tools" role="search" aria-label="Audience" onSubmit=${submit}>
      <${Field} label="Audience" value=${typed.audience} onInput=${(v) => setTyped({ ...typed, audience: v })} maxlength="256" />
      <${Field} label="Namespace" value=${typed.namespace} onInput=${(v) => setTyped({ ...typed, namespace: v })} maxlength="128" />
      <button type="submit" class="button primary" disabled=${!typed.audience.trim()}>Find</button>
    </form>
    <p class="muted">Which tasks and services of the namespace get tokens for this audience, and who can run a job that gets them.</p>
    ${audience && html`<${Found} audience=${audience} namespace=${namespace} />`}`
}

const IDENTITIES = [
  { label: 'Job', head: true, cell: (i) => html`<a href=${jobHref(i.JobID, i.namespace)}><${Name} of=${i.JobID} /></a>` },
  { label: 'Group', cell: (i) => html`<${Name} of=${i.Group} />` },
  { label: 'Holder', cell: (i) => (i.Service ? html`service <${Name} of=${i.Service} />` : html`task <${Name} of=${i.Task} />`) },
  { label: 'Identity', cell: (i) => html`<${Code} of=${i.Identity} />` },
]

const CALLERS = [
  { label: 'Who', head: true, cell: (a) => html`${a.Subject.Kind} <${Name} of=${a.Subject.Name || shortID(a.Subject.ID)} />` },
  { label: 'Why', cell: (a) => html`<bdi>${(a.Decisions ?? []).map((d) => `${d.Question}: ${d.Reason}`).join('; ')}</bdi>` },
]

function Found({ audience, namespace }) {
  const { self, state } = useStore(session)
  const everybody = self?.Type === 'management'
  const { data, error } = useQuery(state === 'unknown' ? null : at`/v1/acl/explain`, { params: { kind: 'audience', right: 'mint', name: audience, namespace, everybody: everybody || null, per_page: 100 } })
  const identities = (data?.Identities ?? []).map((i) => ({ ...i, namespace }))
  const callers = (data?.Answers ?? []).filter((a) => a.Allowed && a.Subject.Kind !== 'workload')
  return html`<${Failure} error=${error} what="who has this audience" />
    ${data && html`
      <${Section} title="Identities with this audience">${identities.length > 0
        ? html`<${Table} caption="identities" columns=${IDENTITIES} rows=${identities} rowKey=${(i) => JSON.stringify(i)} />` : html`<p>None that you may see.</p>`}<//>
      <${Section} title="Who can run a job that gets a token">${callers.length > 0
        ? html`<${Table} caption="callers" columns=${CALLERS} rows=${callers} rowKey=${(a) => JSON.stringify(a.Subject)} />` : html`<p>${everybody ? 'Nobody.' : 'Not you. Only a management token may list the others.'}</p>`}
        ${data && everybody && callers.length >= 100 && html`<p class="muted">The first 100.</p>`}<//>`}`
}
