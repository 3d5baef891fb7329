// Who may read a variable: tasks by the rule of their own paths, and what the servers report about
// tokens, roles and workloads.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { jobHref, policyHref } from '../../lib/links.js'
import { pushQuery } from '../../lib/router.js'
import { session } from '../../lib/session.js'
import { useStore } from '../../lib/store.js'
import { useQuery } from '../../lib/query.js'
import { Code, Name } from '../../parts/name.js'
import { Failure, Loading, Notice } from '../../parts/notice.js'
import { Section } from '../../parts/page.js'
import { Table } from '../../parts/table.js'

const OWN = /^nomad\/jobs(?:\/(.+))?$/

/** The tasks that may read the path with their default identity, in words; null for none. */
function ownersOf(path) {
  const found = OWN.exec(path)
  if (!found) return null
  if (!found[1]) return 'Every task of this namespace may read this path with its own identity.'
  const parts = found[1].split('/')
  const readings = [`job ${found[1]}`]
  if (parts.length > 1) readings.push(`group ${parts.at(-1)} of job ${parts.slice(0, -1).join('/')}`)
  if (parts.length > 2) readings.push(`task ${parts.at(-1)} in group ${parts.at(-2)} of job ${parts.slice(0, -2).join('/')}`)
  return `These tasks of this namespace may read it with their own identity, unless a policy denies it: those of ${readings.join(', or of ')}.`
}

/** @param {{path: string, namespace: string, after: string|null}} props */
export function Readers({ path, namespace, after }) {
  const { state } = useStore(session)
  const own = ownersOf(path)
  return html`<${Section} title="Who may read it">
    <p>${own ? html`<bdi>${own}</bdi>` : 'No task may read this path by its own identity alone: a policy must grant it.'}</p>
    ${state === 'off'
      ? html`<${Notice} tone="warn" title="This cluster has no access control.">Everyone who reaches the agent may read it.<//>`
      : html`<${Answers} path=${path} namespace=${namespace} after=${after} />`}
  <//>`
}

function Answers({ path, namespace, after }) {
  const { data, error, next } = useQuery(at`/v1/acl/explain`, {
    params: { kind: 'variable', right: 'read', name: path, namespace, everybody: 'true', per_page: 50, next_token: after },
    topics: ['ACLPolicy', 'ACLRole', 'ACLToken', 'Job'], gap: 5000,
  })
  if (error?.status === 403) return html`<${Notice} title="Policies, roles and tokens">Only a management token may list who else can read it.<//>`
  const columns = [
    { label: 'Who', head: true, cell: (a) => html`<${Who} subject=${a.Subject} />` },
    { label: 'Why', cell: (a) => html`<${Why} decisions=${a.Decisions ?? []} />` },
  ]
  return html`<${Failure} error=${error} what="who may read this variable" />
    ${!data && !error && html`<${Loading} />`}
    ${data && ((data.Answers ?? []).length > 0
      ? html`<${Table} caption="Who may read it" columns=${columns} rows=${data.Answers} rowKey=${(a) => JSON.stringify(a.Subject)} />`
      : html`<p>Nobody else.</p>`)}
    ${(next || after) && html`<nav class="pager" aria-label="Pages of readers"><span></span>
      ${after && html`<button type="button" class="button" onClick=${() => pushQuery({ readers: null })}>First page</button>`}
      ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ readers: next })}>Next</button>`}</nav>`}`
}

function Who({ subject: s }) {
  const w = s.Workload
  if (w) {
    const parts = [w.Task && html`task <${Name} of=${w.Task} />`, w.Group && html`group <${Name} of=${w.Group} />`,
      w.JobID ? html`job <a href=${jobHref(w.JobID, w.Namespace)}><${Name} of=${w.JobID} /></a>` : html`all jobs in namespace <${Name} of=${w.Namespace} />`].filter(Boolean)
    return html`Tasks: ${parts.map((part, i) => html`${i > 0 ? ', ' : ''}${part}`)}`
  }
  return html`${s.Kind === 'role' ? 'Role' : 'Token'} <${Name} of=${s.Name || shortID(s.ID)} />${s.Name && s.ID && html` <span class="muted small"><${Code} of=${shortID(s.ID)} /></span>`}`
}

function Why({ decisions }) {
  return decisions.map((d) => html`<div>${d.Reason}${(d.Rules ?? []).map((r) => html`<div class="small muted">policy <a href=${policyHref(r.Policy)}><${Name} of=${r.Policy} /></a>, line ${r.Line}: <bdi>${r.Block} ${r.Text}</bdi></div>`)}</div>`)
}
