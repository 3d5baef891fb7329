// The viewer of logs: the choice of tasks, and their lines.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/dom.js'
import { count, plural, visible } from '../lib/format.js'
import { useStore } from '../lib/store.js'
import { Check } from '../parts/field.js'
import { Name } from '../parts/name.js'
import { Empty, Failure } from '../parts/notice.js'
import { Feed, KEPT } from './feed.js'

/** The tasks that can be shown at once. Each has two logs, and each log is read every second. */
const TASKS = 8
const FIRST = 4 // tasks that are shown at first
const TONES = ['info', 'ok', 'warn', 'idle']
const TYPES = { stdout: 'out', stderr: 'err' }

/**
 * @typedef {{key: string, label: string, alloc: string, namespace: string, task: string, ended: boolean}} Source
 *   label names the task among the sources
 * @param {{sources: Source[], chosen?: string[]}} props chosen are the keys of the tasks that are shown at first
 */
export function Logs({ sources, chosen }) {
  const [feed] = useState(() => new Feed())
  const [picked, setPicked] = useState(null)
  const [type, setType] = useState('')
  const [paused, setPaused] = useState(false)
  const [follow, setFollow] = useState(true)
  useStore(feed.version)
  const keys = picked ?? (chosen ?? sources.slice(0, FIRST).map((s) => s.key))
  const toned = sources.map((s, i) => ({ ...s, tone: TONES[i % TONES.length] }))
  const logs = logsOf(toned.filter((s) => keys.includes(s.key)), type)
  const id = logs.map((l) => `${l.key} ${l.ended}`).join('\n')

  useEffect(() => feed.show(logs), [id])
  useEffect(() => {
    if (paused) return undefined
    const control = new AbortController()
    feed.run(control.signal)
    return () => control.abort()
  }, [paused])

  if (sources.length === 0) return html`<${Empty}><p>No task has started yet.</p><//>`
  return html`
    <${Choice} sources=${toned} keys=${keys} onChange=${setPicked} />
    <div class="list-tools">
      <${Types} value=${type} onChange=${setType} />
      <button type="button" class="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Continue' : 'Pause'}</button>
      <button type="button" class="button" onClick=${() => feed.clear()}>Clear</button>
      <${Check} label="Scroll to new lines" checked=${follow} onChange=${setFollow} />
    </div>
    <${Errors} feed=${feed} logs=${logs} />
    <${Lines} feed=${feed} logs=${logs} follow=${follow} setFollow=${setFollow} />
    <p class="muted small">${paused ? 'Paused: lines written meanwhile are read later.' : 'Read every second.'} The last ${count(KEPT)} lines are kept. Lines of different tasks are in the order in which they were read.</p>`
}

/** The logs of the tasks. type is '' for both. */
function logsOf(sources, type) {
  return sources.flatMap((s) => Object.keys(TYPES).filter((t) => type === '' || t === type).map((t) => ({ ...s, type: t, key: `${s.key} ${t}` })))
}

function Choice({ sources, keys, onChange }) {
  const full = keys.length >= TASKS
  const toggle = (key) => onChange(keys.includes(key) ? keys.filter((k) => k !== key) : full ? keys : [...keys, key])
  return html`<fieldset class="log-choice"><legend>Tasks${full && ` (at most ${TASKS} at once)`}</legend>
    ${sources.map((s) => html`<label key=${s.key} data-tone=${s.tone}><input type="checkbox" checked=${keys.includes(s.key)} disabled=${full && !keys.includes(s.key)} onChange=${() => toggle(s.key)} />
      <span class="log-name"><${Name} of=${s.label} /></span></label>`)}
  </fieldset>`
}

function Types({ value, onChange }) {
  return html`<div class="field"><label for="log-type">Output</label><select id="log-type" value=${value} onChange=${(e) => onChange(e.target.value)}>
    <option value="">stdout and stderr</option><option value="stdout">stdout</option><option value="stderr">stderr</option></select></div>`
}

/** The errors of the logs that are shown, each once. */
function Errors({ feed, logs }) {
  const found = new Map()
  for (const log of logs) {
    const err = feed.errors.get(log.key)
    if (err) found.set(err.message, err)
  }
  return [...found.values()].map((err) => html`<${Failure} key=${err.message} error=${err} what="the logs" />`)
}

// Colours and the like. Lines show control characters, but not these sequences.
const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))/g

function Lines({ feed, logs, follow, setFollow }) {
  const box = useRef(null)
  const shown = new Map(logs.map((l) => [l.key, l]))
  const lines = feed.lines.filter((l) => shown.has(l.key))
  useLayoutEffect(() => { if (follow) box.current.scrollTop = box.current.scrollHeight })
  function scrolled({ target: t }) {
    const end = t.scrollHeight - t.scrollTop - t.clientHeight < 8
    if (end !== follow) setFollow(end)
  }
  return html`<div class="log" ref=${box} tabindex="0" role="region" aria-label=${`Log, ${plural(lines.length, 'line')}`} onScroll=${scrolled}>
    ${lines.length === 0 && html`<p class="muted">No lines yet.</p>`}
    ${lines.map((line) => line.view ??= view(line, shown.get(line.key)))}
  </div>`
}

/** A line. The same object is returned for a line that has not changed, so that it is not drawn again. */
function view(line, log) {
  return html`<div key=${line.id} class=${line.mark ? 'log-line muted' : 'log-line'}><span class="log-name" data-tone=${log.tone}><${Name} of=${log.label} /> <span class="log-type">${TYPES[log.type]}</span></span> <bdi>${visible(line.text.replace(SEQUENCES, ''))}</bdi></div>`
}
