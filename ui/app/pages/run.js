// Run a job: its file, the plan, then the registration with the index that the plan has seen.
import { html, useEffect, useId, useState } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { jobHref } from '../lib/links.js'
import { navigate, replaceQuery } from '../lib/router.js'
import { useQuery } from '../lib/query.js'
import { Field } from '../parts/field.js'
import { Notice } from '../parts/notice.js'
import { Page } from '../parts/page.js'
import { draftOf, formatOf, parseJob, readFile } from './run/file.js'
import { Plan } from './run/plan.js'

const VARIABLES = 'Values for the variable blocks of the file, one on each line: name = "value"'
const EMPTY = { source: '', variables: '', namespace: '' }

// The draft stays in the memory of this window, so that a new sign-in does not lose it. It is never
// stored: job files can contain secrets.
let kept = EMPTY

export default function Run({ query }) {
  const [draft, setDraft] = useState(kept)
  const [plan, setPlan] = useState(null) // of this draft
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState('')
  const change = (part) => {
    kept = { ...kept, ...part }
    setDraft(kept)
    setPlan(null)
    setError(null)
  }
  async function act(name, fn) {
    setBusy(name)
    setError(null)
    try {
      await fn()
    } catch (err) {
      setError({ title: TITLES[name], message: err.message })
    }
    setBusy('')
  }
  useEffect(() => {
    const [job, namespace, version] = ['job', 'namespace', 'version'].map((key) => query.get(key))
    if (!job) return
    replaceQuery({ job: null, namespace: null, version: null }) // a look at another page must not load it again
    act('load', async () => change(await draftOf(job, namespace || 'default', version)))
  }, [])
  const makePlan = () => act('plan', async () => {
    setPlan(null)
    const of = kept
    const job = await parseJob(of)
    const namespace = of.namespace || job.Namespace || 'default'
    const { data } = await api.put(at`/v1/job/${job.ID}/plan`, { Job: job, Diff: true }, { namespace })
    if (of === kept) setPlan({ job, namespace, reply: data })
  })
  const run = () => act('run', async () => {
    const { job, namespace, reply } = plan
    const submission = { Source: draft.source, Format: formatOf(draft.source), Variables: draft.variables }
    await api.put(at`/v1/jobs`, { Job: job, EnforceIndex: true, JobModifyIndex: reply.JobModifyIndex, Submission: submission }, { namespace }).catch((err) => {
      throw err.message.includes('modify index') ? new Error(`The job was changed since this plan. Plan again to see what differs now.\n${err.message}`) : err
    })
    kept = EMPTY
    navigate(jobHref(job.ID, namespace))
  })
  const empty = draft.source.trim() === ''
  return html`<${Page} title="Run a job" crumbs=${[{ href: '/ui/jobs', label: 'Jobs' }]}>
    <form class="run" onSubmit=${(e) => { e.preventDefault(); if (!empty && !busy) makePlan() }}>
      <${Open} onText=${(source) => change({ source })} onError=${(err) => setError({ title: 'The file could not be read.', message: err.message })} />
      <${Field} label="Job file" type="textarea" value=${draft.source} onInput=${(source) => change({ source })} rows="18" hint="HCL, or JSON of the API. Nothing is registered before you have seen the plan." />
      ${formatOf(draft.source) === 'hcl2' && html`<${Field} label="Variables" type="textarea" value=${draft.variables} onInput=${(variables) => change({ variables })} rows="3" hint=${VARIABLES} />`}
      <${Namespace} value=${draft.namespace} onChange=${(namespace) => change({ namespace })} />
      ${error && html`<${Notice} tone="bad" title=${error.title}><bdi class="lines">${error.message}</bdi><//>`}
      <div class="actions">
        <button type="submit" class=${plan ? 'button' : 'button primary'} disabled=${empty || busy !== ''}>${busy === 'plan' ? 'Planning …' : plan ? 'Plan again' : 'Plan'}</button>
        ${plan && html`<button type="button" class="button primary" disabled=${busy !== ''} onClick=${run}>${busy === 'run' ? 'Running …' : 'Run'}</button>`}
      </div>
    </form>
    ${plan && html`<${Plan} plan=${plan} />`}
  <//>`
}

const TITLES = { plan: 'The job could not be planned.', run: 'The job was not run.', load: 'The file of the job could not be read.' }

/** The choice of a file. The browser reads it; it is not uploaded before the plan. */
function Open({ onText, onError }) {
  const id = useId()
  async function read(event) {
    const [file] = event.target.files
    event.target.value = '' // the same file can be opened again
    if (!file) return
    try {
      onText(await readFile(file))
    } catch (err) {
      onError(err)
    }
  }
  return html`<div class="field"><label for=${id}>Open a file</label><input id=${id} type="file" accept=".hcl,.nomad,.json,text/plain,application/json" onChange=${read} /></div>`
}

/** The namespace, if there is a choice. */
function Namespace({ value, onChange }) {
  const id = useId()
  const { data } = useQuery(at`/v1/namespaces`)
  const names = [...new Set([...(data ?? []).map((n) => n.Name), ...(value ? [value] : [])])].sort()
  if (names.length < 2 && (names[0] ?? 'default') === 'default') return null
  return html`<div class="field"><label for=${id}>Namespace</label>
    <select id=${id} value=${value} onChange=${(e) => onChange(e.target.value)}>
      <option value="">That of the file</option>
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}
    </select></div>`
}
