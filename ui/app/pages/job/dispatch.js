// The dialog that dispatches a parameterized job.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { jobHref } from '../../lib/links.js'
import { navigate } from '../../lib/router.js'
import { Dialog } from '../../parts/dialog.js'
import { Field } from '../../parts/field.js'

export function DispatchDialog({ job, onClose }) {
  const { Payload: rule, MetaRequired: required, MetaOptional: optional } = job.ParameterizedJob
  const [meta, setMeta] = useState({})
  const [payload, setPayload] = useState('')
  const missing = (required ?? []).some((key) => !meta[key])
  const ready = !missing && !(rule === 'required' && !payload)
  async function confirm() {
    const filled = Object.fromEntries(Object.entries(meta).filter(([, value]) => value !== ''))
    const { data } = await api.put(at`/v1/job/${job.ID}/dispatch`, { Meta: filled, Payload: payload ? base64(payload) : null }, { namespace: job.Namespace })
    navigate(jobHref(data.DispatchedJobID, job.Namespace))
  }
  const input = (key, hint) => html`<${Field} label=${key} hint=${hint} value=${meta[key] ?? ''} onInput=${(v) => setMeta({ ...meta, [key]: v })} />`
  return html`<${Dialog} title="Dispatch the job" action="Dispatch" onClose=${onClose} onConfirm=${confirm} ready=${ready}>
    ${(required ?? []).map((key) => input(key, 'Required'))}
    ${(optional ?? []).map((key) => input(key, 'Optional'))}
    ${rule !== 'forbidden' && html`<${Field} label="Payload" type="textarea" value=${payload} onInput=${setPayload} hint=${rule === 'required' ? 'Required, 16 KiB at most' : 'Optional, 16 KiB at most'} />`}
    ${!required?.length && !optional?.length && rule === 'forbidden' && html`<p>The job takes no parameters.</p>`}
  <//>`
}

/** Encodes text as UTF-8 and then as base64. */
function base64(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join(''))
}
