// The pages of one job. The tab is the segment after the job.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { jobHref, parseJob } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
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
  const [, Tab] = TABS[params.tab ?? ''] ?? TABS['']
  const job = useQuery(at`/v1/job/${id}`, { params: { namespace }, topics: [`Job:${id}`] })
  const parent = job.data?.Periodic || job.data?.ParameterizedJob
  // The summary of a parent counts its runs, which are jobs with names of their own.
  const summary = useQuery(at`/v1/job/${id}/summary`, { params: { namespace }, topics: parent ? ['Job', 'Allocation'] : [`Allocation:${id}`, `Job:${id}`] })
  const crumbs = [{ href: '/ui/jobs', label: 'Jobs' }, ...(job.data?.ParentID ? [{ href: jobHref(job.data.ParentID, namespace), label: job.data.ParentID }] : [])]
  const links = Object.entries(TABS).map(([tab, [label]]) => ({ href: jobHref(id, namespace, tab), label }))
  const tabs = html`<${Tabs} label="Parts of the job" tabs=${links} current=${jobHref(id, namespace, params.tab ?? '')} />`
  const shown = job.data && { ...job.data, Periodic: job.data.Periodic?.Enabled, ParameterizedJob: job.data.ParameterizedJob, JobSummary: summary.data }
  const refresh = () => Promise.all([job.refresh(), summary.refresh()])
  return html`<${Page} title=${job.data?.Name ?? id} crumbs=${crumbs} tabs=${tabs}
    status=${shown && html`<${Status} of=${jobStatus(shown)} /><span class="tag">${kindOf(shown)}</span><span class="tag">namespace <${Name} of=${namespace} /></span>`}
    actions=${shown && html`<${JobActions} job=${job.data} onDone=${refresh} />`}>
    <${Failure} error=${job.error} what="this job" />
    ${!job.data && !job.error && html`<${Loading} />`}
    ${job.data && html`<${Tab} job=${job.data} summary=${summary.data} namespace=${namespace} refresh=${refresh} />`}
  <//>`
}
