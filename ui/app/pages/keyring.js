// The keyring: the root keys that sign identities and encrypt variables.
import { html, useState } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { count, plural } from '../lib/format.js'
import { useQuery } from '../lib/query.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Check, Field } from '../parts/field.js'
import { Icon } from '../parts/icon.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Page } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'

const LOOKS = { active: ['ok', 'ok'], prepublished: ['info', 'wait'], rekeying: ['warn', 'wait'], inactive: ['idle', 'off'], deprecated: ['idle', 'off'] }
const MEANING = {
  active: 'signs and encrypts', prepublished: 'published, signs later', rekeying: 'its variables are encrypted again',
  inactive: 'verifies and decrypts only', deprecated: 'verifies and decrypts only',
}
const BUILT_IN = 'aead'

export default function Keyring() {
  const { data, error, refresh } = useQuery(at`/v1/operator/keyring/keys`)
  const keys = [...(data ?? [])].sort((a, b) => b.CreateTime - a.CreateTime)
  const moving = keys.some((k) => k.State === 'rekeying')
  return html`<${Page} title="Keyring" actions=${data && html`<button type="button" class="button" onClick=${refresh}>Read again</button>
      <${DialogButton} label="Rotate" primary dialog=${(close) => html`<${Rotate} onClose=${close} onDone=${refresh} />`} />`}>
    <p>Root keys sign the identities of tasks and nodes, and encrypt variables. Verifiers get the public keys from${' '}
      <a href="/.well-known/jwks.json" target="_blank" rel="noreferrer">/.well-known/jwks.json<${Icon} name="link" /></a>.</p>
    <${Failure} error=${error} what="the keyring" />
    ${!data && !error && html`<${Loading} />`}
    ${moving && html`<${Notice} tone="info" title="Variables are being encrypted again.">${count(keys.filter((k) => k.State === 'rekeying').reduce((n, k) => n + (k.Variables ?? 0), 0))} remain.<//>`}
    ${keys.filter((k) => k.Closed).map((k) => html`<${Notice} tone="bad" title=${html`The server has not unwrapped key <${Code} of=${k.KeyID} />.`}><bdi>${k.Closed}</bdi><//>`)}
    ${keys.length > 0 && html`<${Table} caption="root keys" columns=${columns(refresh)} rows=${keys} rowKey=${(k) => k.KeyID} />`}
  <//>`
}

const columns = (refresh) => [
  { label: 'Key', head: true, cell: (k) => html`<${Code} of=${k.KeyID} />` },
  { label: 'State', cell: (k) => html`<${Status} of=${k.State} tone=${LOOKS[k.State]?.[0]} icon=${LOOKS[k.State]?.[1]} /><div class="muted small">${MEANING[k.State] ?? ''}</div>` },
  { label: 'Created', kind: 'narrow', cell: (k) => html`<${Ago} at=${k.CreateTime} />` },
  { label: 'Signs from', kind: 'narrow', cell: (k) => (k.PublishTime > 0 ? html`<${Ago} at=${k.PublishTime} />` : '–') },
  { label: 'Variables', kind: 'number', cell: (k) => count(k.Variables) },
  { label: 'Wrapped by', cell: (k) => html`<${Name} of=${(k.WrappedBy ?? []).map((id) => (id === BUILT_IN ? 'built in' : id)).join(', ') || '–'} />` },
  { label: 'Actions', kind: 'narrow', cell: (k) => k.State !== 'active' && html`<${DialogButton} label="Remove" danger dialog=${(close) => html`<${Remove} root=${k} onClose=${close} onDone=${refresh} />`} />` },
]

function Rotate({ onClose, onDone }) {
  const [full, setFull] = useState(false)
  const [hours, setHours] = useState('')
  const delay = hours === '' ? 0 : /^\d{1,4}$/.test(hours) ? Number(hours) : -1
  const fault = delay < 0 ? 'Use a whole number of hours, or nothing.' : delay > 0 && full ? 'A key that signs later cannot encrypt now.' : null
  async function confirm() {
    const publish = delay > 0 ? String(BigInt(Date.now() + delay * 3_600_000) * 1_000_000n) : null // nanoseconds exceed the exact numbers of JavaScript
    await api.put(at`/v1/operator/keyring/rotate`, undefined, { full: full || null, publish_time: publish })
    await onDone()
  }
  return html`<${Dialog} title="Rotate the root key?" action="Rotate" onClose=${onClose} onConfirm=${confirm} ready=${!fault}>
    <p>A new key is created. Existing tokens stay valid: the current key goes on verifying them.</p>
    <${Field} label="Hours until the new key signs" value=${hours} onInput=${setHours} inputmode="numeric" error=${fault}
      hint="Nothing: it signs now. Otherwise it is published first, so that verifiers know it before it signs." />
    <${Check} label="Also encrypt all variables again with the new key" checked=${full} onChange=${setFull} />
  <//>`
}

function Remove({ root, onClose, onDone }) {
  async function confirm() {
    await api.del(at`/v1/operator/keyring/key/${root.KeyID}`)
    await onDone()
  }
  return html`<${Dialog} title="Remove the root key?" action="Remove" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Key <${Code} of=${root.KeyID} /> is removed, if no allocation, no node and no variable uses it. ${root.Variables > 0 ? `It encrypts ${plural(root.Variables, 'variable')}.` : ''}</p>
    <p class="muted">Only <code>nomad operator root keyring remove -force</code> removes a key that is in use.</p>
  <//>`
}
