// What the tasks of an allocation use, beside what is reserved for them.
import { html, useEffect, useId } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { bytes, count, percent } from '../../lib/format.js'
import { useQuery } from '../../lib/query.js'

const EVERY = 5000 // milliseconds between two measurements

/** Returns the measurements of an allocation with a running task. They are read again while the page is visible. */
export function useStats(alloc) {
  const running = alloc.DesiredStatus === 'run' && Object.values(alloc.TaskStates ?? {}).some((s) => s.State === 'running')
  const { data, refresh } = useQuery(!running ? null : at`/v1/client/allocation/${alloc.ID}/stats`, { params: { namespace: alloc.Namespace } })
  useEffect(() => {
    if (!running) return undefined
    const timer = setInterval(() => { if (!document.hidden) refresh() }, EVERY)
    return () => clearInterval(timer)
  }, [refresh, running])
  return running ? data : null
}

/** The use of a task. Without a measurement, only what is reserved is shown. */
export function Use({ reserved, used }) {
  if (!reserved) return null
  const memory = (reserved.Memory?.MemoryMB ?? 0) * 1024 * 1024
  const limit = Math.max(memory, (reserved.Memory?.MemoryMaxMB ?? 0) * 1024 * 1024)
  return html`<div class="use">
    <${Meter} label="CPU" used=${used?.CpuStats?.TotalTicks} of=${reserved.Cpu?.CpuShares ?? 0} text=${(n) => `${count(Math.round(n))} MHz`} />
    <${Meter} label="Memory" used=${resident(used?.MemoryStats)} of=${memory} text=${bytes} more=${limit > memory ? `, at most ${bytes(limit)}` : ''} />
  </div>`
}

/** The resident memory if the driver measures it, else all of it. */
function resident(stats) {
  if (!stats) return undefined
  return stats.RSS === 0 && !(stats.Measured ?? []).includes('RSS') ? stats.Usage : stats.RSS
}

function Meter({ label, used, of, text, more = '' }) {
  const id = useId()
  const share = used === undefined ? null : percent(used, of)
  return html`<div>
    <div class="use-text"><span id=${id}>${label}</span> <span class="muted small">${share === null ? `${text(of)} reserved${more}` : `${text(used)} of ${text(of)} reserved (${share} %)${more}`}</span></div>
    ${share !== null && html`<div class="bar" role="meter" aria-labelledby=${id} aria-valuemin="0" aria-valuemax=${Math.max(100, share)} aria-valuenow=${share}>
      <span data-tone=${share > 100 ? 'warn' : 'ok'} data-pattern=${share > 100 ? 'striped' : null} style=${{ width: `${Math.min(100, share)}%` }}></span></div>`}
  </div>`
}
