// What can be done with a job: start, stop, dispatch, run now.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { navigate } from '../../lib/router.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { Check, Field } from '../../parts/field.js'
import { Name } from '../../parts/name.js'
import { expect, needUnchanged } from './conflict.js'
import { DispatchDialog } from './dispatch.js'

export function JobActions({ job, onDone }) {
  const runs = !job.Stop
  return html`
    ${runs && job.ParameterizedJob && html`<${DialogButton} label="Dispatch" primary dialog=${(close) => html`<${DispatchDialog} job=${job} onClose=${close} />`} />`}
    ${runs && job.Periodic?.Enabled && html`<${DialogButton} label="Run now" dialog=${(close) => html`<${RunNow} job=${job} onClose=${close} onDone=${onDone} />`} />`}
    ${runs
      ? html`<${DialogButton} key="stop" label="Stop" danger dialog=${(close) => html`<${Stop} job=${job} onClose=${close} onDone=${onDone} />`} />`
      : html`<${DialogButton} key="start" label="Start" primary dialog=${(close) => html`<${Start} job=${job} onClose=${close} onDone=${onDone} />`} />`}`
}

function Stop({ job, onClose, onDone }) {
  const [seen] = useState(job) // the page goes on behind the dialog
  const [purge, setPurge] = useState(false)
  async function confirm() {
    await needUnchanged(seen)
    await api.del(at`/v1/job/${job.ID}`, { namespace: job.Namespace, purge: purge || null })
    if (purge) navigate('/ui/jobs')
    else await onDone()
  }
  return html`<${Dialog} title="Stop the job?" action=${purge ? 'Stop and purge' : 'Stop'} danger onClose=${onClose} onConfirm=${confirm}>
    <p>All allocations of <strong><${Name} of=${job.Name} /></strong> are stopped. The job can be started again.</p>
    <${Check} label="Also purge it: remove the job and its history. It cannot be started again." checked=${purge} onChange=${setPurge} />
  <//>`
}

function Start({ job, onClose, onDone }) {
  const [seen] = useState(job)
  async function confirm() {
    const { data } = await api.get(at`/v1/job/${job.ID}/versions`, { namespace: job.Namespace })
    const ran = data.Versions.find((v) => !v.Stop)
    if (!ran) throw new Error('No version of this job that ran is stored. Run the job file again.')
    await expect(api.put(at`/v1/job/${job.ID}/revert`, { JobID: job.ID, JobVersion: ran.Version, EnforcePriorVersion: seen.Version }, { namespace: job.Namespace }))
    await onDone()
  }
  return html`<${Dialog} title="Start the job?" action="Start" onClose=${onClose} onConfirm=${confirm}>
    <p>The last version of <strong><${Name} of=${job.Name} /></strong> that ran is registered as a new version.</p>
  <//>`
}

function RunNow({ job, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/job/${job.ID}/periodic/force`, undefined, { namespace: job.Namespace })
    await onDone()
  }
  return html`<${Dialog} title="Run the job now?" action="Run now" onClose=${onClose} onConfirm=${confirm}>
    <p>A run of <strong><${Name} of=${job.Name} /></strong> begins now, besides those of its schedule.</p>
  <//>`
}

/** The dialog that sets the count of a group. */
export function ScaleDialog({ onClose, onDone, ...now }) {
  const [{ job, group }] = useState(now) // the page goes on behind the dialog
  const [text, setText] = useState(String(group.Count))
  const [reason, setReason] = useState('')
  const n = /^\d{1,6}$/.test(text) ? Number(text) : -1
  const { Min: min = 0, Max: max = Infinity } = group.Scaling ?? {}
  const fault = n < 0 ? 'Use a whole number.' : n < min || n > max ? `The scaling block allows ${min} to ${max}.` : null
  async function confirm() {
    const target = { Namespace: job.Namespace, Job: job.ID, Group: group.Name }
    const body = { Target: target, Count: n, Message: reason || 'scaled in the web UI', JobModifyIndex: job.JobModifyIndex }
    await expect(api.put(at`/v1/job/${job.ID}/scale`, body, { namespace: job.Namespace }))
    await onDone()
  }
  return html`<${Dialog} title="Scale the group" action="Scale" onClose=${onClose} onConfirm=${confirm} ready=${!fault && n !== group.Count}>
    <p>Group <strong><${Name} of=${group.Name} /></strong> has a count of ${group.Count}.</p>
    <${Field} label="New count" value=${text} onInput=${setText} inputmode="numeric" error=${fault} />
    <${Field} label="Reason, kept with the scaling event" value=${reason} onInput=${setReason} maxlength="200" />
  <//>`
}

