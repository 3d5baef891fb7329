// One allocation: its state, its tasks with their events, and what the sandbox denied them.
import { html } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { plural, shortID } from '../lib/format.js'
import { allocHref, evalHref, jobHref, nodeHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Ago } from '../parts/time.js'
import { Denials } from './allocation/denials.js'

const ENDED = ['complete', 'failed', 'lost']

export default function Allocation({ params }) {
  const { data: a, error, refresh } = useQuery(at`/v1/allocation/${params.id}`, { topics: [`Allocation:${params.id}`], namespace: '*' })
  const crumbs = a ? [{ href: '/ui/jobs', label: 'Jobs' }, { href: jobHref(a.JobID, a.Namespace), label: a.JobID }, { href: jobHref(a.JobID, a.Namespace, 'allocations'), label: 'Allocations' }] : []
  const tasks = Object.entries(a?.TaskStates ?? {}).sort(([x], [y]) => (x < y ? -1 : 1))
  return html`<${Page} title=${a?.Name ?? shortID(params.id)} crumbs=${crumbs} status=${a && html`<${Status} of=${a.ClientStatus} />`}
    actions=${a && !ENDED.includes(a.ClientStatus) && html`<${Actions} alloc=${a} refresh=${refresh} />`}>
    <${Failure} error=${error} what="this allocation" />
    ${!a && !error && html`<${Loading} />`}
    ${a && html`<${About} alloc=${a} />`}
    ${tasks.map(([name, state]) => html`<${Task} key=${name} name=${name} state=${state} />`)}
  <//>`
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

function Task({ name, state }) {
  const events = [...(state.Events ?? [])].reverse()
  return html`<${Section} title=${html`Task <${Name} of=${name} />`} actions=${html`<${Status} of=${state.Failed ? 'failed' : state.State} /><span class="muted small">${plural(state.Restarts, 'restart')}</span>`}>
    <${Denials} events=${events} />
    <ol class="events">${events.map((e) => html`<li key=${e.Time}><span class="event-time muted"><${Ago} at=${e.Time} /></span><strong>${e.Type}</strong><bdi>${e.DisplayMessage || e.Message}</bdi></li>`)}</ol>
  <//>`
}

function Actions({ alloc: a, refresh }) {
  const params = { namespace: a.Namespace }
  const act = (path, body) => async () => {
    await api.put(path, body, params)
    await refresh()
  }
  return html`
    <${DialogButton} label="Restart" dialog=${(close) => html`<${Dialog} title="Restart the tasks?" action="Restart" onClose=${close} onConfirm=${act(at`/v1/client/allocation/${a.ID}/restart`, {})}>
      <p>The running tasks are restarted on their node. Nothing is placed again.</p><//>`} />
    <${DialogButton} label="Stop" danger dialog=${(close) => html`<${Dialog} title="Stop the allocation?" action="Stop" danger onClose=${close} onConfirm=${act(at`/v1/allocation/${a.ID}/stop`, undefined)}>
      <p>The allocation is stopped, and a new one is placed, perhaps on another node.</p><//>`} />`
}
