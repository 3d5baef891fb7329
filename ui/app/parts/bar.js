import { html } from '../lib/dom.js'
import { count } from '../lib/format.js'

/**
 * A bar whose parts have the width of their counts, with the counts as text.
 * @param {{label: string, parts: {name: string, count: number, tone: string, striped?: boolean}[]}} props
 */
export function Bar({ label, parts }) {
  const shown = parts.filter((p) => p.count > 0)
  const text = shown.map((p) => `${count(p.count)} ${p.name}`)
  return html`<div class="bar-box">
    <div class="bar" role="img" aria-label=${`${label}: ${text.join(', ') || 'none'}`}>
      ${shown.map((p) => html`<span data-tone=${p.tone} data-pattern=${p.striped ? 'striped' : null} style=${{ flex: String(p.count) }}></span>`)}
    </div>
    <div class="counts" aria-hidden="true">${text.map((t) => html`<span>${t}</span>`)}</div>
  </div>`
}

/** The allocations of a job or a group by what they do. */
export function allocParts(sum) {
  return [
    { name: 'running', count: sum.Running, tone: 'ok' }, { name: 'starting', count: sum.Starting, tone: 'info' },
    { name: 'queued', count: sum.Queued, tone: 'warn', striped: true }, { name: 'unknown', count: sum.Unknown, tone: 'warn' },
    { name: 'failed', count: sum.Failed, tone: 'bad', striped: true }, { name: 'lost', count: sum.Lost, tone: 'bad' },
    { name: 'complete', count: sum.Complete, tone: 'idle' },
  ]
}
