// The logs of the tasks of an allocation.
import { html } from '../../lib/dom.js'
import { toDate } from '../../lib/format.js'
import { Logs } from '../../logs/viewer.js'

export function AllocationLogs({ alloc: a, task }) {
  const started = Object.entries(a.TaskStates ?? {}).filter(([, state]) => toDate(state.StartedAt)).sort(([x], [y]) => (x < y ? -1 : 1))
  const sources = started.map(([name, state]) => ({ key: name, label: name, alloc: a.ID, namespace: a.Namespace, task: name, ended: state.State === 'dead' }))
  return html`<${Logs} sources=${sources} chosen=${task ? [task] : undefined} />`
}
