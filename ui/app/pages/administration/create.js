// The dialog that creates an ACL token.
import { html, useId, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { useQuery } from '../../lib/query.js'
import { Dialog } from '../../parts/dialog.js'
import { Check, Field } from '../../parts/field.js'
import { Name } from '../../parts/name.js'

const DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/

export function CreateToken({ onClose, onCreated }) {
  const id = useId()
  const policies = useQuery(at`/v1/acl/policies`)
  const roles = useQuery(at`/v1/acl/roles`)
  const [token, setToken] = useState({ name: '', type: 'client', ttl: '', global: false, policies: [], roles: [] })
  const set = (changes) => setToken((old) => ({ ...old, ...changes }))
  const client = token.type === 'client'
  const fault = token.ttl && !DURATION.test(token.ttl) ? 'Use a duration such as 8h or 30m.' : null
  const granted = !client || token.policies.length + token.roles.length > 0
  async function confirm() {
    const { data } = await api.put(at`/v1/acl/token`, {
      Name: token.name, Type: token.type, Global: token.global, ExpirationTTL: token.ttl || undefined,
      Policies: client ? token.policies : [], Roles: client ? token.roles.map((ID) => ({ ID })) : [],
    })
    onCreated(data)
  }
  const choose = (key, value) => (on) => setToken((old) => ({ ...old, [key]: on ? [...old[key], value] : old[key].filter((v) => v !== value) }))
  return html`<${Dialog} title="Create a token" action="Create" onClose=${onClose} onConfirm=${confirm} ready=${!fault && granted}>
    <${Field} label="Name" value=${token.name} onInput=${(name) => set({ name })} maxlength="256" />
    <div class="field"><label for=${id}>Type</label><select id=${id} value=${token.type} onChange=${(e) => set({ type: e.target.value })}>
      <option value="client">client: what its policies and roles grant</option><option value="management">management: everything</option></select></div>
    ${client && html`<${Choices} legend="Policies" list=${(policies.data ?? []).map((p) => [p.Name, p.Name])} chosen=${token.policies} onChange=${(v) => choose('policies', v)} />
      <${Choices} legend="Roles" list=${(roles.data ?? []).map((r) => [r.ID, r.Name])} chosen=${token.roles} onChange=${(v) => choose('roles', v)} />
      ${!granted && html`<p class="hint">A client token has at least one policy or role.</p>`}`}
    <${Field} label="Lifetime" value=${token.ttl} onInput=${(ttl) => set({ ttl })} error=${fault} hint="Such as 8h. Nothing: it does not expire." />
    <${Check} label="Valid in all regions" checked=${token.global} onChange=${(global) => set({ global })} />
  <//>`
}

function Choices({ legend, list, chosen, onChange }) {
  if (list.length === 0) return null
  return html`<fieldset class="choice-list"><legend>${legend}</legend>
    ${list.map(([value, label]) => html`<${Check} key=${value} label=${html`<${Name} of=${label} />`} checked=${chosen.includes(value)} onChange=${onChange(value)} />`)}</fieldset>`
}
