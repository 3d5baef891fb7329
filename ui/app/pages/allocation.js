// The pages of one allocation. The tab is the segment after its ID.
import { html } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { shortID } from '../lib/format.js'
import { allocHref, jobHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Name } from '../parts/name.js'
import { Page, Tabs } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Files } from './allocation/files.js'
import { AllocationLogs } from './allocation/logs.js'
import { Overview } from './allocation/overview.js'
import { Sandboxes } from './allocation/sandbox.js'

const ENDED = ['complete', 'failed', 'lost']

const TABS = { '': ['Overview', Overview], logs: ['Logs', AllocationLogs], fs: ['Files', Files], sandbox: ['Sandbox', Sandboxes] }

export default function Allocation({ params, query }) {
  const { data: a, error, refresh } = useQuery(at`/v1/allocation/${params.id}`, { topics: [`Allocation:${params.id}`], namespace: '*' })
  const crumbs = a ? [{ href: '/ui/jobs', label: 'Jobs' }, { href: jobHref(a.JobID, a.Namespace), label: a.JobID }, { href: jobHref(a.JobID, a.Namespace, 'allocations'), label: 'Allocations' }] : []
  const asked = params.task ? 'logs' : params.tab ?? ''
  const current = Object.hasOwn(TABS, asked) ? asked : ''
  const [, Tab] = TABS[current]
  const links = Object.entries(TABS).map(([tab, [label]]) => ({ href: allocHref(params.id, tab), label }))
  const ended = a && ENDED.includes(a.ClientStatus)
  return html`<${Page} title=${a?.Name ?? shortID(params.id)} crumbs=${crumbs} status=${a && html`<${Status} of=${a.ClientStatus} />`}
    tabs=${html`<${Tabs} label="Parts of the allocation" tabs=${links} current=${allocHref(params.id, current)} />`}
    actions=${a && !ended && html`<${Actions} alloc=${a} refresh=${refresh} />`}>
    <${Failure} error=${error} what="this allocation" />
    ${!a && !error && html`<${Loading} />`}
    ${a && current !== asked && html`<${Part} alloc=${a} name=${asked} />`}
    ${a && html`<${Tab} alloc=${a} ended=${ended} task=${params.task} query=${query} />`}
  <//>`
}

/** What a path after the allocation names that is not a tab. Nomad's UI has the tasks there. */
function Part({ alloc: a, name }) {
  const group = a.Job?.TaskGroups?.find((g) => g.Name === a.TaskGroup)
  if (!group?.Tasks?.some((t) => t.Name === name)) return html`<${Notice} tone="warn">The allocation has no task and no page <${Name} of=${name} />.<//>`
  return html`<${Notice}>The task <${Name} of=${name} /> is shown on the page of its allocation. <a href=${allocHref(a.ID, `${encodeURIComponent(name)}/logs`)}>Logs of the task</a><//>`
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
