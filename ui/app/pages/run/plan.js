// The plan of a job: what running it would change, and which nodes can take it.
import { html, useCallback } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { jobHref } from '../../lib/links.js'
import { JobDiff } from '../../parts/diff.js'
import { Explain, EXPLAIN_PAGE } from '../../parts/explain.js'
import { Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Facts, Section } from '../../parts/page.js'
import { Placement } from '../../parts/placement.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'
import { Updates } from '../../parts/updates.js'

const KINDS = { Added: 'The job is new.', Edited: 'The job is changed.', None: 'The job does not change.', Deleted: 'The job is removed.' }

/** plan is {job, namespace, reply}: reply is an object of the API of the type JobPlanResponse. */
export function Plan({ plan }) {
  const { job, namespace, reply } = plan
  const failed = Object.entries(reply.FailedTGAllocs ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  const updates = Object.entries(reply.Annotations?.DesiredTGUpdates ?? {}).filter(([, u]) => u).map(([group, u]) => ({ group, ...u }))
  const load = useCallback((token) => api.put(at`/v1/job/${job.ID}/explain`, { Job: job }, { namespace, per_page: EXPLAIN_PAGE, next_token: token }), [plan])
  const next = reply.NextPeriodicLaunch && !reply.NextPeriodicLaunch.startsWith('0001')
  return html`
    <${Section} title="Plan">
      ${reply.Warnings && html`<${Notice} tone="warn" title="Warnings"><bdi class="lines">${reply.Warnings}</bdi><//>`}
      ${failed.length === 0 ? html`<${Notice} tone="ok">Each allocation can be placed.<//>` : failed.map(([group, metric]) => html`<${Placement} key=${group} group=${group} metric=${metric} />`)}
      <${Facts} rows=${[
        ['Job', reply.JobModifyIndex > 0 ? html`<a href=${jobHref(job.ID, namespace)}><${Name} of=${job.ID} /></a>` : html`<${Name} of=${job.ID} />`],
        ['Namespace', html`<${Name} of=${namespace} />`], ['Changes', KINDS[reply.Diff?.Type] ?? null],
        ['Job modify index', String(reply.JobModifyIndex)], ['Next periodic run', next ? html`<${Ago} at=${reply.NextPeriodicLaunch} />` : null],
      ]} />
    <//>
    ${updates.length > 0 && html`<${Section} title="Allocations"><${Updates} rows=${updates} /><//>`}
    ${reply.Diff && html`<${Section} title="Difference"><div class="panel"><${JobDiff} diff=${reply.Diff} /></div><//>`}
    ${reply.Isolation?.length > 0 && html`<${Section} title="Isolation"><div class="compact"><${Table} caption="Isolation of the tasks" columns=${ISOLATION} rows=${reply.Isolation} rowKey=${(t) => `${t.TaskGroup} ${t.Task}`} /></div><//>`}
    <${Section} title="Nodes"><p class="muted">Each node is checked for one more allocation of each group.</p><${Explain} load=${load} /><//>`
}

const ISOLATION = [
  { label: 'Task', head: true, cell: (t) => html`<${Name} of=${t.Task} />` },
  { label: 'Group', cell: (t) => html`<${Name} of=${t.TaskGroup} />` },
  { label: 'At most', kind: 'narrow', cell: (t) => t.Level || '–' },
  { label: 'On the nodes', cell: (t) => Object.entries(t.Nodes ?? {}).sort().map(([level, n]) => `${level} on ${n}`).join(', ') || 'no node can run it' },
]
