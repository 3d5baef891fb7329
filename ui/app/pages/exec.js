// A terminal in a task. Nothing runs before the user connects, so that a link cannot start a command.
//
// This page is a document of its own, because xterm.js needs a policy that allows inline styles.
import { html, useEffect, useRef, useState } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { shortID } from '../lib/format.js'
import { allocHref, jobHref, parseJob } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Check, Field } from '../parts/field.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Facts, Page } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { words } from './exec/words.js'
import { Session } from './exec/session.js'

const NOT_LOADED = 'The terminal could not be loaded. The agent does not answer, or it was upgraded since this window was opened. Reload the page.'

const STATES = { idle: ['idle', 'off', 'Not connected'], connecting: ['info', 'wait', 'Connecting'], open: ['ok', 'run', 'Connected'], ended: ['idle', 'stop', 'Ended'] }

export default function Exec({ params }) {
  const { id, namespace } = parseJob(params.job)
  const { data: a, error } = useQuery(at`/v1/allocation/${params.alloc}`, { topics: [`Allocation:${params.alloc}`], namespace: '*' })
  const [state, setState] = useState({ name: 'idle' })
  const [tone, icon, label] = STATES[state.name]
  const crumbs = [{ href: '/ui/jobs', label: 'Jobs' }, { href: jobHref(id, namespace), label: id }, { href: allocHref(params.alloc), label: a?.Name ?? shortID(params.alloc) }]
  return html`<${Page} title=${`Terminal in ${params.task}`} crumbs=${crumbs} status=${html`<${Status} of=${state.name} tone=${tone} icon=${icon} label=${label} />`}>
    <${Failure} error=${error} what="this allocation" />
    ${!a && !error && html`<${Loading} />`}
    ${a && html`<${About} alloc=${a} task=${params.task} /><${Terminal} alloc=${a} task=${params.task} state=${state} setState=${setState} />`}
  <//>`
}

function About({ alloc: a, task }) {
  const state = a.TaskStates?.[task]?.State ?? 'unknown'
  return html`<${Facts} rows=${[['Task', html`<${Name} of=${task} />`], ['State', html`<${Status} of=${state} />`], ['Allocation', html`<a href=${allocHref(a.ID)}><${Code} of=${shortID(a.ID)} /></a>`],
    ['Group', html`<${Name} of=${a.TaskGroup} />`], ['Node', html`<${Name} of=${a.NodeName} />`]]} />`
}

function Terminal({ alloc, task, state, setState }) {
  const [command, setCommand] = useState('/bin/sh')
  const [reader, setReader] = useState(false)
  const box = useRef(null)
  const leave = useRef(null)
  const active = useRef(null)
  useEffect(() => () => active.current?.close(), [])
  const parsed = words(command)
  const busy = state.name === 'connecting' || state.name === 'open'

  async function connect(event) {
    event.preventDefault()
    if (busy || parsed === null) return
    active.current?.close()
    setState({ name: 'connecting' })
    let terminal
    try {
      const { openTerminal } = await import('./exec/terminal.js').catch(() => { throw new Error(NOT_LOADED) }) // with xterm.js, which is large
      terminal = await openTerminal(box.current, reader, () => leave.current?.focus())
    } catch (err) {
      setState({ name: 'ended', error: err.message })
      return
    }
    const session = new Session({ alloc: alloc.ID, namespace: alloc.Namespace, task, command: parsed, terminal })
    active.current = { end: () => session.close(), close: () => { session.close(); terminal.dispose() } }
    session.onState = setState
    session.open()
    terminal.focus()
  }

  return html`
    <form class="list-tools exec-form" onSubmit=${connect}>
      <${Field} label="Command" value=${command} onInput=${setCommand} error=${parsed === null ? 'A quotation mark is not closed, or there is no command.' : undefined} readonly=${busy} />
      ${busy ? html`<button type="button" class="button" ref=${leave} onClick=${() => active.current?.end()}>Disconnect</button>` : html`<button type="submit" class="button primary" disabled=${parsed === null}>Connect</button>`}
      ${!busy && html`<${Check} label="For a screen reader" checked=${reader} onChange=${setReader} />`}
    </form>
    <${Ended} state=${state} />
    <div class="terminal" data-open=${state.name !== 'idle'} ref=${box}></div>
    ${busy && html`<p class="muted small">The tab key belongs to the terminal. <kbd>Ctrl</kbd>+<kbd>Shift</kbd>+<kbd>L</kbd> leaves it.</p>`}`
}

function Ended({ state }) {
  if (state.error) return html`<${Notice} tone="bad" title="The session failed.">${state.error}<//>`
  if (state.name !== 'ended') return null
  return html`<${Notice} tone=${state.code ? 'warn' : 'info'}>${state.code === undefined ? 'You disconnected. The command was ended.' : `The command ended with exit code ${state.code}.`}<//>`
}
