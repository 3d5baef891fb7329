// One deployment: its progress, and the actions while it is active.
import { html } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { shortID } from '../../lib/format.js'
import { Bar } from '../../parts/bar.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { Code, Name } from '../../parts/name.js'
import { Status } from '../../parts/status.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'

const ACTIVE = ['running', 'paused', 'blocked', 'unblocking', 'pending', 'initializing']

/** heading is h2 or h3, as the headings above it require. */
export function DeploymentPanel({ deployment: d, refresh, heading = 'h2' }) {
  const groups = Object.entries(d.TaskGroups ?? {}).map(([name, group]) => ({ name, ...group }))
  return html`<article class="panel">
    <div class="panel-head">
      <${Status} of=${d.Status} /><${heading}>Version ${d.JobVersion}<//><${Code} of=${shortID(d.ID)} /><span class="muted small"><${Ago} at=${d.CreateTime} /></span>
      <div class="actions">${ACTIVE.includes(d.Status) && html`<${Actions} deployment=${d} groups=${groups} refresh=${refresh} />`}</div>
    </div>
    <p class="muted">${d.StatusDescription}</p>
    <${Table} caption=${`Groups of the deployment of version ${d.JobVersion}`} columns=${COLUMNS} rows=${groups} rowKey=${(g) => g.name} />
  </article>`
}

const COLUMNS = [
  { label: 'Group', head: true, cell: (g) => html`<${Name} of=${g.name} />` },
  { label: 'Health', cell: (g) => html`<${Bar} label="Health" parts=${[
    { name: 'healthy', count: g.HealthyAllocs, tone: 'ok' }, { name: 'unhealthy', count: g.UnhealthyAllocs, tone: 'bad', striped: true },
    { name: 'placed', count: Math.max(0, g.PlacedAllocs - g.HealthyAllocs - g.UnhealthyAllocs), tone: 'info' },
    { name: 'to place', count: Math.max(0, g.DesiredTotal - g.PlacedAllocs), tone: 'none' },
  ]} />` },
  { label: 'Desired', kind: 'number', cell: (g) => g.DesiredTotal },
  { label: 'Canaries', kind: 'narrow', cell: (g) => (g.DesiredCanaries > 0 ? `${(g.PlacedCanaries ?? []).length} of ${g.DesiredCanaries}, ${g.Promoted ? 'promoted' : 'not promoted'}` : '–') },
  { label: 'Auto-revert', kind: 'narrow', cell: (g) => (g.AutoRevert ? 'yes' : 'no') },
  { label: 'Progress by', kind: 'narrow', cell: (g) => html`<${Ago} at=${g.RequireProgressBy} />` },
]

function Actions({ deployment: d, groups, refresh }) {
  const waits = groups.some((g) => g.DesiredCanaries > 0 && !g.Promoted)
  const paused = d.Status === 'paused'
  const params = { namespace: d.Namespace }
  const act = (path, body) => async () => {
    await api.put(path, body, params)
    await refresh()
  }
  const button = (label, text, run, kind = {}) => html`<${DialogButton} key=${label} label=${label} ...${kind} dialog=${(close) => html`<${Dialog} title=${`${label} the deployment?`} action=${label} danger=${kind.danger} onClose=${close} onConfirm=${run}><p>${text}</p><//>`} />`
  return html`
    ${waits && button('Promote', 'The canaries become the job, and the allocations of the earlier version are replaced.', act(at`/v1/deployment/promote/${d.ID}`, { DeploymentID: d.ID, All: true }), { primary: true })}
    ${paused
      ? button('Resume', 'The deployment goes on.', act(at`/v1/deployment/pause/${d.ID}`, { DeploymentID: d.ID, Pause: false }))
      : button('Pause', 'No further allocation is replaced until the deployment is resumed.', act(at`/v1/deployment/pause/${d.ID}`, { DeploymentID: d.ID, Pause: true }))}
    ${button('Fail', groups.some((g) => g.AutoRevert) ? 'The deployment ends as failed, and the job reverts to its last stable version.' : 'The deployment ends as failed. Its allocations stay as they are.', act(at`/v1/deployment/fail/${d.ID}`, undefined), { danger: true })}`
}
