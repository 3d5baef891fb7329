import { html } from '../lib/dom.js'
import { capital } from '../lib/format.js'
import { Icon } from './icon.js'

// What each status of the API looks like: the tone is a colour of the design system.
const LOOKS = {
  running: ['ok', 'run'], complete: ['idle', 'ok'], pending: ['info', 'wait'], dead: ['idle', 'stop'], failed: ['bad', 'bad'],
  lost: ['bad', 'warn'], unknown: ['warn', 'unknown'], stopped: ['idle', 'stop'], ready: ['ok', 'ok'], initializing: ['info', 'wait'],
  down: ['bad', 'bad'], disconnected: ['warn', 'warn'], draining: ['warn', 'wait'], ineligible: ['warn', 'off'], eligible: ['ok', 'ok'],
  successful: ['ok', 'ok'], cancelled: ['idle', 'off'], canceled: ['idle', 'off'], paused: ['warn', 'wait'], blocked: ['warn', 'wait'],
  unblocking: ['info', 'wait'], healthy: ['ok', 'ok'], unhealthy: ['bad', 'bad'], alive: ['ok', 'ok'], left: ['idle', 'off'],
  degraded: ['warn', 'warn'], scaled: ['idle', 'off'], schedulable: ['ok', 'ok'], unschedulable: ['bad', 'bad'], unavailable: ['bad', 'bad'],
  unpublishing: ['warn', 'wait'], 'node-detached': ['warn', 'wait'], 'controller-detached': ['info', 'wait'],
}

/** A status as icon, word and colour. The tone and icon of unknown words are neutral. */
export function Status({ of, label, tone, icon }) {
  const [knownTone, knownIcon] = LOOKS[of] ?? ['idle', 'unknown']
  return html`<span class="status" data-tone=${tone ?? knownTone}><${Icon} name=${icon ?? knownIcon} />${label ?? capital(String(of ?? 'unknown'))}</span>`
}

/** The status of a job: its own status, told apart further by what its allocations do. */
export function jobStatus(job) {
  const sum = sumOf(job.JobSummary)
  if (job.Stop || job.Status === 'dead') {
    if (job.Stop) return 'stopped'
    return sum.Failed + sum.Lost > 0 && sum.Complete === 0 ? 'failed' : 'complete'
  }
  if (job.Status === 'pending') return 'pending'
  if (job.Periodic || job.ParameterizedJob) return 'running'
  return sum.Queued + sum.Unknown > 0 ? 'degraded' : 'running'
}

const STATES = ['Queued', 'Starting', 'Running', 'Unknown', 'Failed', 'Lost', 'Complete']

/** Adds the counts of all groups of a job summary. */
export function sumOf(summary) {
  const out = Object.fromEntries(STATES.map((s) => [s, 0]))
  for (const group of Object.values(summary?.Summary ?? {})) {
    for (const s of STATES) out[s] += group[s] ?? 0
  }
  return out
}
