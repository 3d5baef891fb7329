// The list of jobs.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { jobHref } from '../lib/links.js'
import { href } from '../lib/router.js'
import { allocParts, Bar } from '../parts/bar.js'
import { List } from '../parts/list.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { jobStatus, Status, sumOf } from '../parts/status.js'
import { Ago } from '../parts/time.js'

const equals = (field, values) => values.map(([value, label]) => ({ value, label, filter: `${field} == "${value}"` }))

const FACETS = [
  { key: 'status', label: 'Status', options: equals('Status', [['running', 'Running'], ['pending', 'Pending'], ['dead', 'Dead']]) },
  { key: 'type', label: 'Type', options: equals('Type', [['service', 'Service'], ['batch', 'Batch'], ['system', 'System'], ['sysbatch', 'Sysbatch']]) },
]

const COLUMNS = [
  { label: 'Job', head: true, cell: (j) => html`<a href=${jobHref(j.ID, j.Namespace)}><${Name} of=${j.Name} /></a>${j.Name !== j.ID && html`<div class="muted small"><${Name} of=${j.ID} /></div>`}` },
  { label: 'Status', kind: 'narrow', cell: (j) => html`<${Status} of=${jobStatus(j)} />` },
  { label: 'Allocations', cell: (j) => html`<${Bar} label="Allocations" parts=${allocParts(sumOf(j.JobSummary))} />` },
  { label: 'Type', kind: 'narrow', cell: kindOf },
  { label: 'Namespace', cell: (j) => html`<${Name} of=${j.Namespace} />` },
  { label: 'Priority', kind: 'number', cell: (j) => j.Priority },
  { label: 'Submitted', kind: 'narrow', cell: (j) => html`<${Ago} at=${j.SubmitTime} />` },
]

/** The type of a job, with what makes it a template of other jobs. */
export function kindOf(job) {
  if (job.Periodic) return `${job.Type}, periodic`
  if (job.ParameterizedJob) return `${job.Type}, parameterized`
  return job.Type
}

export default function Jobs() {
  return html`<${Page} title="Jobs" actions=${html`<a class="button primary" href=${href('/ui/jobs/run')}>Run a job</a>`}>
    <${List} path=${at`/v1/jobs`} what="jobs" columns=${COLUMNS} rowKey=${(j) => `${j.Namespace} ${j.ID}`} search=${['ID', 'Name']} facets=${FACETS}
      namespaced topics=${['Job', 'Allocation']} empty=${html`<p>There are no jobs yet.</p><p><code>nomad job run example.nomad.hcl</code> runs the first one.</p>`} />
  <//>`
}
