// What the sandbox denied a task, and the line of the job that would allow it.
import { html } from '../../lib/dom.js'
import { Code, Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'

/** Returns the denials of the events of a task, each once: objects of the type Denial. */
export function denialsOf(events) {
  const found = new Map()
  for (const event of events) {
    for (const d of parse(event.Details?.denials)) found.set(`${d.Layer} ${d.Rule} ${d.Path ?? ''} ${d.Port ?? ''}`, d)
  }
  return [...found.values()]
}

/** The details of an event come from a node: anything else than a list is ignored. */
function parse(text) {
  try {
    const list = JSON.parse(text ?? '[]')
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}

/** Returns the line of the task's config that would allow the denials, '' if no path would. */
export function mendOf(denials) {
  const entries = [...new Set(denials.map((d) => d.Unveil).filter(Boolean))].sort()
  return entries.length > 0 ? `unveil = [${entries.map((e) => JSON.stringify(e)).join(', ')}]` : ''
}

export function Denials({ events }) {
  const denials = denialsOf(events)
  if (denials.length === 0) return null
  const mend = mendOf(denials)
  return html`<${Notice} tone="warn" title="The sandbox denied accesses of this task.">
    <ul class="reasons">${denials.map((d) => html`<li><${Code} of=${d.Rule} /> ${d.Path && html`on <${Code} of=${d.Path} />`} ${d.Port && `on port ${d.Port}`} ${d.Hint && html`<span>(<${Name} of=${d.Hint} />)</span>`}</li>`)}</ul>
    ${mend && html`<p>If the task needs them, add to its <code>config</code>:</p><pre tabindex="0" role="region" aria-label="Line for the job"><bdi>${mend}</bdi></pre>`}
  <//>`
}
