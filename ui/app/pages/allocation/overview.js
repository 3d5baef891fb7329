// An allocation: its facts, and its tasks with their use, their events and what the sandbox denied them.
import { html } from '../../lib/dom.js'
import { plural, shortID } from '../../lib/format.js'
import { allocHref, evalHref, execHref, nodeHref } from '../../lib/links.js'
import { Code, Name } from '../../parts/name.js'
import { Facts, Section } from '../../parts/page.js'
import { Status } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'
import { Denials } from './denials.js'
import { Use, useStats } from './usage.js'

export function Overview({ alloc }) {
  const stats = useStats(alloc)
  const tasks = Object.entries(alloc.TaskStates ?? {}).sort(([x], [y]) => (x < y ? -1 : 1))
  return html`<${About} alloc=${alloc} />
    ${tasks.map(([name, state]) => html`<${Task} key=${name} alloc=${alloc} name=${name} state=${state} stats=${stats?.Tasks?.[name]} />`)}`
}

function About({ alloc: a }) {
  const link = (id, to) => (id ? html`<a href=${to(id)}><${Code} of=${shortID(id)} /></a>` : null)
  return html`<${Facts} rows=${[
    ['ID', html`<${Code} of=${a.ID} />`], ['Group', html`<${Name} of=${a.TaskGroup} />`], ['Job version', a.Job && String(a.Job.Version)],
    ['Node', html`<a href=${nodeHref(a.NodeID)}><${Name} of=${a.NodeName || shortID(a.NodeID)} /></a>`], ['Namespace', html`<${Name} of=${a.Namespace} />`],
    ['Desired', a.DesiredStatus], ['Reason', a.ClientDescription || a.DesiredDescription], ['Created', html`<${Ago} at=${a.CreateTime} />`], ['Changed', html`<${Ago} at=${a.ModifyTime} />`],
    ['Evaluation', link(a.EvalID, evalHref)], ['Replaces', link(a.PreviousAllocation, allocHref)], ['Replaced by', link(a.NextAllocation, allocHref)],
    ['Isolation', a.Isolation && html`<${Name} of=${[...new Set(Object.values(a.Isolation))].join(', ')} /> or higher`],
  ]} />`
}

function Task({ alloc: a, name, state, stats }) {
  const events = [...(state.Events ?? [])].reverse()
  const running = state.State === 'running'
  return html`<${Section} title=${html`Task <${Name} of=${name} />`} actions=${html`<${Status} of=${state.Failed ? 'failed' : state.State} /><span class="muted small">${plural(state.Restarts, 'restart')}</span>
    ${running && html`<a class="button" href=${execHref(a.JobID, a.Namespace, a.TaskGroup, name, a.ID)}>Terminal</a>`}`}>
    <${Denials} events=${events} />
    <${Use} reserved=${a.AllocatedResources?.Tasks?.[name]} used=${running ? stats?.ResourceUsage : null} />
    <ol class="events">${events.map((e) => html`<li key=${e.Time}><span class="event-time muted"><${Ago} at=${e.Time} /></span><strong>${e.Type}</strong><bdi>${e.DisplayMessage || e.Message}</bdi></li>`)}</ol>
  <//>`
}
