// What evaluations mean, in words.

/** The causes of evaluations. */
export const TRIGGERS = {
  'job-register': 'The job was registered.',
  'job-deregister': 'The job was stopped.',
  'periodic-job': 'A run of a periodic job began.',
  'job-scaling': 'A group was scaled.',
  'node-update': 'A node changed.',
  'node-drain': 'A node is being drained.',
  'alloc-stop': 'An allocation was stopped by a user.',
  scheduled: 'A scheduled evaluation, such as a garbage collection.',
  'rolling-update': 'The next step of a rolling update.',
  'deployment-watcher': 'A deployment goes on.',
  'failed-follow-up': 'An earlier evaluation failed.',
  'max-plan-attempts': 'The plans of an earlier evaluation were refused too often.',
  'alloc-failure': 'An allocation failed.',
  'alloc-reschedule': 'A failed allocation is replaced.',
  'queued-allocs': 'Earlier allocations could not be placed.',
  preemption: 'An allocation was preempted.',
  reconnect: 'A disconnected node came back.',
  'max-disconnect-timeout': 'A node was disconnected for too long.',
}

/**
 * Returns what an evaluation did, or what it waits for.
 * @param {{Status: string, StatusDescription: string, FailedTGAllocs: object, QuotaLimitReached: string, BlockedEval: string}} e
 */
export function verdict(e) {
  const failed = Object.keys(e.FailedTGAllocs ?? {}).length > 0
  switch (e.Status) {
    case 'pending': return 'It waits for a scheduler.'
    case 'blocked': return e.QuotaLimitReached
      ? 'It waits until the use of the quota falls.'
      : 'It waits for room. The scheduler tries again when a node or an allocation changes so that a placement may be possible.'
    case 'canceled': return 'It was canceled. A newer evaluation of the job replaces it.'
    case 'failed': return 'The scheduler could not process it.'
    case 'complete': return failed ? 'Some allocations were not placed.' : 'The scheduler placed, changed or stopped all that was needed.'
    default: return e.StatusDescription
  }
}
