// The dialogs that start, change and cancel a drain, and the state of a drain.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { plural } from '../../lib/format.js'
import { Dialog } from '../../parts/dialog.js'
import { Check, Field } from '../../parts/field.js'
import { Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Ago } from '../../parts/time.js'

const SECONDS = { h: 3600, m: 60, s: 1 }

/** Returns the nanoseconds of a duration such as "1h30m", or 0 if the text is not one. */
export function parseDuration(text) {
  const parts = [...text.trim().matchAll(/(\d+(?:\.\d+)?)([hms])/g)]
  if (parts.length === 0 || parts.map((p) => p[0]).join('') !== text.trim()) return 0
  const ns = parts.reduce((sum, [, n, unit]) => sum + Number(n) * SECONDS[unit], 0) * 1e9
  return Number.isSafeInteger(Math.round(ns)) ? Math.round(ns) : 0
}

const LIMITS = [['deadline', 'Stop what is left at a deadline'], ['none', 'Wait without a deadline'], ['now', 'Stop all allocations now']]

export function DrainDialog({ node, onClose, onDone }) {
  const [limit, setLimit] = useState('deadline')
  const [text, setText] = useState('1h')
  const [ignore, setIgnore] = useState(false)
  const [message, setMessage] = useState('')
  const parsed = parseDuration(text)
  const fault = limit === 'deadline' && parsed === 0 ? 'Use a duration above zero, such as 1h30m.' : null
  async function confirm() {
    const deadline = { deadline: parsed, none: 0, now: -1 }[limit]
    await api.put(at`/v1/node/${node.ID}/drain`, { NodeID: node.ID, DrainSpec: { Deadline: deadline, IgnoreSystemJobs: ignore }, Meta: message ? { message } : {} })
    await onDone()
  }
  return html`<${Dialog} title=${node.DrainStrategy ? 'Change the drain' : 'Drain the node'} action="Drain" danger onClose=${onClose} onConfirm=${confirm} ready=${!fault}>
    <p>Allocations are moved away from <strong><${Name} of=${node.Name} /></strong>, as the <code>migrate</code> blocks of their jobs allow. Batch jobs may finish. The node is ineligible from now on.</p>
    <fieldset class="choices"><legend class="hidden">Deadline of the drain</legend>
      ${LIMITS.map(([value, label]) => html`<label><input type="radio" name="limit" value=${value} checked=${limit === value} onChange=${() => setLimit(value)} />${label}</label>`)}
    </fieldset>
    ${limit === 'deadline' && html`<${Field} label="Deadline" value=${text} onInput=${setText} maxlength="20" error=${fault} />`}
    <${Check} label="Leave the allocations of system jobs" checked=${ignore} onChange=${setIgnore} />
    <${Field} label="Message, kept with the drain" value=${message} onInput=${setMessage} maxlength="200" />
  <//>`
}

export function CancelDialog({ node, onClose, onDone }) {
  const [keep, setKeep] = useState(false)
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/drain`, { NodeID: node.ID, DrainSpec: null, MarkEligible: !keep })
    await onDone()
  }
  return html`<${Dialog} title="Cancel the drain?" action="Cancel the drain" onClose=${onClose} onConfirm=${confirm}>
    <p>Allocations that have moved away from <strong><${Name} of=${node.Name} /></strong> do not come back.</p>
    <${Check} label="Keep the node ineligible" checked=${keep} onChange=${setKeep} />
  <//>`
}

/** The drain of a node, while it is active. */
export function Draining({ node, live }) {
  const drain = node.DrainStrategy
  if (!drain) return null
  const forced = drain.Deadline < 0
  return html`<${Notice} tone="warn" title="The node is draining.">
    Begun <${Ago} at=${drain.StartedAt} />. ${live !== undefined && html`${plural(live, 'allocation')} still on the node. `}
    ${forced ? 'All allocations are stopped now.' : drain.Deadline === 0 ? 'There is no deadline.' : html`What is left is stopped <${Ago} at=${drain.ForceDeadline} />.`}
    ${drain.IgnoreSystemJobs && ' Allocations of system jobs stay.'}
    ${node.LastDrain?.Meta?.message && html` Message: <${Name} of=${node.LastDrain.Meta.message} />`}
  <//>`
}
