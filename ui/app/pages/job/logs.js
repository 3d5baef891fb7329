// The logs of the tasks of a job. Running allocations come first, then the newest.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { plural, shortID, toDate } from '../../lib/format.js'
import { useQuery } from '../../lib/query.js'
import { quote } from '../../lib/filter.js'
import { Failure, Loading } from '../../parts/notice.js'
import { Logs } from '../../logs/viewer.js'

const NEWEST = 50 // allocations whose tasks can be chosen

export function JobLogs({ job, namespace }) {
  const { data, error, next } = useQuery(at`/v1/allocations`, {
    params: { namespace, reverse: true, per_page: NEWEST, filter: `JobID == ${quote(job.ID)}`, task_states: true }, topics: [`Allocation:${job.ID}`],
  })
  if (!data) return error ? html`<${Failure} error=${error} what="the allocations" />` : html`<${Loading} />`
  const rank = (a) => (a.ClientStatus === 'running' ? 0 : 1)
  const sources = data.toSorted((a, b) => rank(a) - rank(b)).flatMap((a) => Object.entries(a.TaskStates ?? {}).filter(([, state]) => toDate(state.StartedAt)).map(([task, state]) => ({
    key: `${a.ID} ${task}`, label: `${shortID(a.ID)} ${task}`, alloc: a.ID, namespace: a.Namespace, task, ended: state.State === 'dead',
  })))
  return html`<${Failure} error=${error} what="the allocations" />
    <${Logs} sources=${sources} />
    ${next && html`<p class="muted small">The tasks are those of the newest ${plural(NEWEST, 'allocation')}. The page of an allocation has its own logs.</p>`}`
}
