// The pages of one job. The tab is the segment after the job.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { jobHref, parseJob } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Page, Tabs } from '../parts/page.js'
import { jobStatus, Status } from '../parts/status.js'
import { kindOf } from './jobs.js'
import { JobActions } from './job/actions.js'
import { Allocations } from './job/allocations.js'
import { Definition } from './job/definition.js'
import { Deployments } from './job/deployments.js'
import { Evaluations } from './job/evaluations.js'
import { JobLogs } from './job/logs.js'
import { Overview } from './job/overview.js'
import { Versions } from './job/versions.js'

const TABS = {
  '': ['Overview', Overview], allocations: ['Allocations', Allocations], logs: ['Logs', JobLogs], deployments: ['Deployments', Deployments],
  versions: ['Versions', Versions], evaluations: ['Evaluations', Evaluations], definition: ['Definition', Definition],
}

export default function Job({ params }) {
  const { id, namespace } = parseJob(params.job)
  const asked = params.tab ?? ''
  const group = Object.hasOwn(TABS, asked) ? null : asked
  const current = group === null ? asked : 'allocations'
  const [, Tab] = TABS[current]
  const job = useQuery(at`/v1/job/${id}`, { params: { namespace }, topics: [`Job:${id}`] })
  const parent = job.data?.Periodic || job.data?.ParameterizedJob
  // The summary of a parent counts its runs, which are jobs with names of their own.
  const summary = useQuery(at`/v1/job/${id}/summary`, { params: { namespace }, topics: parent ? ['Job', 'Allocation'] : [`Allocation:${id}`, `Job:${id}`] })
  const crumbs = [{ href: '/ui/jobs', label: 'Jobs' }, ...(job.data?.ParentID ? [{ href: jobHref(job.data.ParentID, namespace), label: job.data.ParentID }] : [])]
  const links = Object.entries(TABS).map(([tab, [label]]) => ({ href: jobHref(id, namespace, tab), label }))
  const tabs = html`<${Tabs} label="Parts of the job" tabs=${links} current=${jobHref(id, namespace, current)} />`
  const shown = job.data && { ...job.data, Periodic: job.data.Periodic?.Enabled, ParameterizedJob: job.data.ParameterizedJob, JobSummary: summary.data }
  const refresh = () => Promise.all([job.refresh(), summary.refresh()])
  return html`<${Page} title=${job.data?.Name ?? id} crumbs=${crumbs} tabs=${tabs}
    status=${shown && html`<${Status} of=${jobStatus(shown)} /><span class="tag">${kindOf(shown)}</span><span class="tag">namespace <${Name} of=${namespace} /></span>`}
    actions=${shown && html`<${JobActions} job=${job.data} onDone=${refresh} />`}>
    <${Failure} error=${job.error} what="this job" />
    ${!job.data && !job.error && html`<${Loading} />`}
    ${job.data && group !== null && html`<${Group} job=${job.data} namespace=${namespace} name=${group} />`}
    ${job.data && html`<${Tab} job=${job.data} group=${hasGroup(job.data, group) ? group : null} summary=${summary.data} namespace=${namespace} refresh=${refresh} />`}
  <//>`
}

const hasGroup = (job, name) => name !== null && job.TaskGroups.some((g) => g.Name === name)

/** What a path after the job names that is not a tab. Nomad's UI has the groups there. */
function Group({ job, namespace, name }) {
  if (!hasGroup(job, name)) return html`<${Notice} tone="warn">The job has no group and no page <${Name} of=${name} />. These are all its allocations.<//>`
  return html`<${Notice}>These are the allocations of the group <${Name} of=${name} />. <a href=${jobHref(job.ID, namespace, 'allocations')}>All allocations of the job</a><//>`
}
