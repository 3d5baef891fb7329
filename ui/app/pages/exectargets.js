// The running tasks of a job, or of a group of it, with a link to a terminal in each. Paths of terminals
// without an allocation lead here, and so do those of Nomad's UI, which have it in the query.
//
// A single task is shown as a link too: a session never starts from a link.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { all, quote } from '../lib/filter.js'
import { execHref, jobHref, parseJob } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { allocColumns } from '../parts/allocations.js'
import { List } from '../parts/list.js'
import { Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page } from '../parts/page.js'

const SHOWN = ['ID', 'Group', 'Node', 'Created']

export default function ExecTargets({ params, query }) {
  const parsed = parseJob(params.job)
  const { id } = parsed
  const namespace = params.job.includes('@') ? parsed.namespace : query.get('namespace') || 'default'
  const job = useQuery(at`/v1/job/${id}`, { params: { namespace }, topics: [`Job:${id}`] })
  const missing = job.data && absent(job.data, params)
  const crumbs = [{ href: '/ui/jobs', label: 'Jobs' }, { href: jobHref(id, namespace), label: id }]
  return html`<${Page} title="Choose a task for a terminal" crumbs=${crumbs}>
    <${Failure} error=${job.error} what="this job" />
    ${!job.data && !job.error && html`<${Loading} />`}
    ${missing}
    ${job.data && !missing && html`<${Facts} rows=${[['Job', html`<${Name} of=${id} />`], ['Group', params.group && html`<${Name} of=${params.group} />`], ['Task', params.task && html`<${Name} of=${params.task} />`]]} />
      <${Targets} id=${id} namespace=${namespace} group=${params.group} task=${params.task} alloc=${query.get('allocation')} />`}
  <//>`
}

/** A sentence about the part of the path that the job does not have, or null. */
function absent(job, { group, task }) {
  if (!group) return null
  const found = job.TaskGroups.find((g) => g.Name === group)
  if (!found) return html`<p>The job has no group <${Name} of=${group} />.</p>`
  if (task && !found.Tasks.some((t) => t.Name === task)) return html`<p>The group <${Name} of=${group} /> has no task <${Name} of=${task} />.</p>`
  return null
}

function Targets({ id, namespace, group, task, alloc }) {
  const filter = all(`JobID == ${quote(id)}`, 'ClientStatus == "running"', group && `TaskGroup == ${quote(group)}`, alloc && `ID == ${quote(alloc)}`)
  const columns = [...allocColumns(['job']).filter((c) => SHOWN.includes(c.label)), { label: 'Terminal', cell: (a) => html`<${Tasks} alloc=${a} only=${task} />` }]
  return html`<${List} path=${at`/v1/allocations`} what="running allocations" params=${{ namespace, reverse: true }} filter=${filter}
    columns=${columns} rowKey=${(a) => a.ID} topics=${[`Allocation:${id}`]} />`
}

/** Links to a terminal in each running task of an allocation. */
function Tasks({ alloc: a, only }) {
  const tasks = Object.keys(a.TaskStates ?? {}).filter((name) => a.TaskStates[name].State === 'running' && (!only || name === only)).sort()
  if (tasks.length === 0) return html`<span class="muted">no running task</span>`
  return html`<ul class="exec-tasks">${tasks.map((name) => html`<li><a href=${execHref(a.JobID, a.Namespace, a.TaskGroup, name, a.ID)}>Terminal in <${Name} of=${name} /></a></li>`)}</ul>`
}
