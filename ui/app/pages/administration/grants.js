// What a policy grants, in words.
import { html } from '../../lib/dom.js'
import { capital } from '../../lib/format.js'

/** The tasks that a policy applies to without a token, or ''. */
export function appliesTo(j) {
  if (!j?.Namespace) return ''
  return ['Tasks of', j.Task && `task ${j.Task},`, j.Group && `group ${j.Group},`, j.JobID ? `job ${j.JobID}` : 'all jobs', `in namespace ${j.Namespace}`].filter(Boolean).join(' ')
}

// Capabilities whose names are not plain words.
const WORDS = {
  'parse-job': 'parse job files', 'read-fs': 'read files of tasks', 'read-logs': 'read logs of tasks', 'alloc-exec': 'run commands in isolated tasks',
  'alloc-node-exec': 'run commands in tasks that are not isolated', 'alloc-lifecycle': 'restart, stop and signal tasks', 'privileged-execution': 'run privileged tasks',
  'submit-job': 'run, stop and change jobs', 'scale-job': 'scale jobs', 'dispatch-job': 'dispatch jobs', 'list-jobs': 'list jobs', 'read-job': 'read jobs',
  'mount-readonly': 'mount it for reading', 'mount-readwrite': 'mount it for writing', destroy: 'delete',
}
const word = (capability) => WORDS[capability] ?? capability.replaceAll('-', ' ')
const words = (list) => list.map(word).join(', ')

const place = (kind, name) => (name === '*' ? `all ${kind}s` : name.includes('*') ? `${kind}s that match ${name}` : `${kind} ${name}`)

/** The sentence of a block: who, and what is granted or denied there. */
function sentence(where, policy, capabilities = []) {
  if (policy === 'deny' || capabilities.includes('deny')) return { where, what: 'nothing: everything is denied', deny: true }
  const granted = (capabilities ?? []).length > 0 ? words(capabilities) : policy
  return { where, what: granted || 'nothing: wider rules do not apply here', deny: !granted }
}

const PLAIN = [['Node', 'nodes'], ['Agent', 'agents'], ['Operator', 'the cluster itself (operator)'], ['Quota', 'quotas'], ['Plugin', 'plugins']]

/** What the rules of a policy grant, as sentences {where, what, deny}. rules is RulesJSON of the API. */
function grantsOf(rules) {
  const out = []
  for (const ns of rules?.Namespaces ?? []) {
    const where = place('namespace', ns.Name)
    out.push(sentence(where, ns.Policy, ns.Capabilities ?? []))
    for (const p of ns.Variables?.Paths ?? []) out.push(sentence(`${where}, ${place('variable', p.PathSpec)}`, '', p.Capabilities ?? []))
  }
  for (const p of rules?.NodePools ?? []) out.push(sentence(place('node pool', p.Name), p.Policy, p.Capabilities ?? []))
  for (const v of rules?.HostVolumes ?? []) out.push(sentence(place('host volume', v.Name), v.Policy, v.Capabilities ?? []))
  for (const [key, where] of PLAIN) if (rules?.[key]) out.push(sentence(where, rules[key].Policy, rules[key].Capabilities ?? []))
  return out
}

export function Grants({ rules }) {
  const list = grantsOf(rules)
  if (list.length === 0) return html`<p>This policy grants nothing.</p>`
  return html`<ul class="grants">${list.map((g) => html`<li><strong><bdi>${capital(g.where)}</bdi></strong>: <span data-deny=${g.deny ? '' : null}><bdi>${g.what}</bdi></span></li>`)}</ul>`
}
