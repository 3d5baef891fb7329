import { html } from '../lib/dom.js'
import { plural, shortID } from '../lib/format.js'
import { allocHref, jobHref, nodeHref } from '../lib/links.js'
import { Code, Name } from './name.js'
import { Status } from './status.js'
import { Ago } from './time.js'

/** The facets of every list of allocations. */
export const ALLOC_FACETS = [{
  key: 'status', label: 'Status',
  options: ['running', 'pending', 'failed', 'lost', 'unknown', 'complete'].map((s) => ({ value: s, label: s[0].toUpperCase() + s.slice(1), filter: `ClientStatus == "${s}"` })),
}]

/** The columns of every list of allocations, but those left out: 'job' or 'node'. */
export function allocColumns(without = []) {
  return [
    { label: 'ID', head: true, cell: (a) => html`<a href=${allocHref(a.ID)}><${Code} of=${shortID(a.ID)} /></a>` },
    { key: 'job', label: 'Job', cell: (a) => html`<a href=${jobHref(a.JobID, a.Namespace)}><${Name} of=${a.JobID} /></a>` },
    { label: 'Group', cell: (a) => html`<${Name} of=${a.TaskGroup} /><span class="muted">${indexOf(a)}</span>` },
    { label: 'Status', kind: 'narrow', cell: (a) => html`<${Status} of=${a.ClientStatus} />` },
    { label: 'Detail', cell: (a) => html`<span class="muted small">${detailOf(a)}</span>` },
    { label: 'Version', kind: 'number', cell: (a) => a.JobVersion },
    { key: 'node', label: 'Node', cell: (a) => html`<a href=${nodeHref(a.NodeID)}><${Name} of=${a.NodeName || shortID(a.NodeID)} /></a>` },
    { label: 'Created', kind: 'narrow', cell: (a) => html`<${Ago} at=${a.CreateTime} />` },
  ].filter((c) => !without.includes(c.key))
}

const indexOf = (a) => a.Name.match(/\[\d+\]$/)?.[0] ?? ''

/** One line about an allocation: what is about to change, how a task failed, or its health. */
function detailOf(a) {
  const failed = Object.entries(a.TaskStates ?? {}).find(([, state]) => state.Failed)
  if (failed) return html`task <${Name} of=${failed[0]} /> failed${failed[1].Restarts > 0 ? ` after ${plural(failed[1].Restarts, 'restart')}` : ''}`
  if (a.DesiredStatus !== 'run' && !['complete', 'failed', 'lost'].includes(a.ClientStatus)) return 'stopping'
  const restarts = Object.values(a.TaskStates ?? {}).reduce((n, state) => n + (state.Restarts ?? 0), 0)
  return [a.DeploymentStatus?.Canary && 'canary', a.DeploymentStatus?.Healthy === true && 'healthy', a.DeploymentStatus?.Healthy === false && 'unhealthy', restarts > 0 && plural(restarts, 'restart')].filter(Boolean).join(', ')
}
