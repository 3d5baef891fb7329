// One ACL policy: what it grants in words, its text, and the form that changes it. The name "new" is the form of
// a new policy.
import { html, useState } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { policyHref } from '../lib/links.js'
import { navigate } from '../lib/router.js'
import { useQuery } from '../lib/query.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Check, Field } from '../parts/field.js'
import { Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Page, Section } from '../parts/page.js'
import { appliesTo, Grants } from './administration/grants.js'

const CRUMBS = [{ href: '/ui/administration', label: 'Access control' }, { href: '/ui/administration/policies', label: 'Policies' }]
const START = 'namespace "default" {\n  policy = "read"\n}\n'

export default function Policy({ params }) {
  return params.policy === 'new' ? html`<${New} />` : html`<${Existing} name=${params.policy} />`
}

function New() {
  return html`<${Page} title="Create a policy" crumbs=${CRUMBS}>
    <${PolicyForm} policy=${null} onCancel=${() => navigate('/ui/administration/policies')} onDone=${(name) => navigate(policyHref(name))} />
  <//>`
}

function Existing({ name }) {
  const { data: p, error, refresh } = useQuery(at`/v1/acl/policy/${name}`, { topics: [`ACLPolicy:${name}`] })
  const [editing, setEditing] = useState(false)
  async function done() {
    setEditing(false)
    await refresh()
  }
  return html`<${Page} title=${name} crumbs=${CRUMBS} actions=${p && !editing && html`<button type="button" class="button primary" onClick=${() => setEditing(true)}>Edit</button>
      <${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete} name=${name} onClose=${close} />`} />`}>
    <${Failure} error=${error} what="this policy" />
    ${!p && !error && html`<${Loading} />`}
    ${p && (editing
      ? html`<${PolicyForm} policy=${p} onCancel=${() => setEditing(false)} onDone=${done} />`
      : html`${p.Description && html`<p><bdi>${p.Description}</bdi></p>`}
        ${p.JobACL && html`<p>Applies without a token to: <bdi>${appliesTo(p.JobACL)}</bdi></p>`}
        <${Section} title="What it grants"><${Grants} rules=${p.RulesJSON} /><//>
        <${Section} title="Text"><pre tabindex="0" aria-label="Text of the policy"><bdi>${p.Rules}</bdi></pre><//>`)}
  <//>`
}

/** The form of a policy. The server reports each error of the rules with its line. */
function PolicyForm({ policy, onDone, onCancel }) {
  const [seen] = useState(policy) // the page behind the form goes on
  const [name, setName] = useState(policy?.Name ?? '')
  const [description, setDescription] = useState(policy?.Description ?? '')
  const [rules, setRules] = useState(policy?.Rules ?? START)
  const [error, setError] = useState(null)
  const [other, setOther] = useState(null) // the policy as someone else has written it
  const [overwrite, setOverwrite] = useState(false)
  const [busy, setBusy] = useState(false)

  async function save(event) {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      const current = await read(name)
      const known = other ?? seen
      if ((current?.ModifyIndex ?? 0) !== (known?.ModifyIndex ?? 0) || (other && !overwrite)) {
        setOther(current ?? { ModifyIndex: 0, Rules: '' })
        setOverwrite(false)
        return
      }
      await api.put(at`/v1/acl/policy/${name}`, { Name: name, Description: description, Rules: rules, JobACL: seen?.JobACL ?? undefined })
      await onDone(name)
    } catch (err) {
      setError(err)
    } finally {
      setBusy(false)
    }
  }
  return html`<form onSubmit=${save}>
    ${!policy && html`<${Field} label="Name" value=${name} onInput=${setName} maxlength="128" hint="Letters, digits and -" />`}
    <${Field} label="Description" value=${description} onInput=${setDescription} maxlength="256" />
    <${Field} label="Rules" type="textarea" class="policy-text" rows="18" value=${rules} onInput=${setRules} aria-invalid=${error ? 'true' : null} />
    ${error && html`<${Notice} tone="bad" title="The policy was not written."><pre class="value"><bdi>${error.message}</bdi></pre><//>`}
    ${other && html`<${Notice} tone="warn" title="Someone else has written this policy.">Nothing was written. The stored text is:
      <pre class="value"><bdi>${other.Rules || '(the policy was deleted)'}</bdi></pre>
      <${Check} label="Replace it with my text" checked=${overwrite} onChange=${setOverwrite} /><//>`}
    <p class="actions form-actions">
      <button type="button" class="button" onClick=${onCancel}>Cancel</button>
      <button type="submit" class="button primary" disabled=${busy || !/^[a-zA-Z0-9-]{1,128}$/.test(name) || name === 'new' || (other && !overwrite)}>${policy ? 'Save' : 'Create'}</button>
    </p>
  </form>`
}

/** Returns the stored policy, or null. The API has no check-and-set for policies. */
async function read(name) {
  try {
    return (await api.get(at`/v1/acl/policy/${name}`)).data
  } catch (error) {
    if (error.status === 404) return null
    throw error
  }
}

function Delete({ name, onClose }) {
  async function confirm() {
    await api.del(at`/v1/acl/policy/${name}`)
    navigate('/ui/administration/policies')
  }
  return html`<${Dialog} title="Delete the policy?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Tokens and roles with policy <strong><${Name} of=${name} /></strong> lose what it grants.</p>
  <//>`
}
