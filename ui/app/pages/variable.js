// One variable: its items, who may read it, and the form that changes it. Without a variable in the path,
// the form of a new one.
import { html, useState } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { folderHref, variableHref } from '../lib/links.js'
import { navigate } from '../lib/router.js'
import { useQuery } from '../lib/query.js'
import { Dialog, DialogButton } from '../parts/dialog.js'
import { Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Ago } from '../parts/time.js'
import { VariableForm } from './variable/form.js'
import { Items } from './variable/items.js'
import { Readers } from './variable/readers.js'

/** Splits the parameter of the page: path@namespace, with /edit for the form. Paths cannot contain "@". */
function parseVariable(text) {
  const [, path, namespace, edit] = /^([^@]*)(?:@([^/]*))?(\/edit)?$/.exec(text) ?? ['', text]
  return { path: path ?? text, namespace: namespace || 'default', edit: Boolean(edit) }
}

export default function Variable({ params, query }) {
  if (params.path === undefined) return html`<${New} path=${query.get('path') ?? ''} namespace=${query.get('namespace') || 'default'} />`
  return html`<${Existing} ...${parseVariable(params.path)} after=${query.get('readers')} />`
}

function New({ path, namespace }) {
  return html`<${Page} title="Create a variable" crumbs=${[{ href: '/ui/variables', label: 'Variables' }]}>
    <${VariableForm} variable=${null} start=${{ path, namespace }} onCancel=${() => navigate('/ui/variables')} onDone=${(v) => navigate(variableHref(v.Path, v.Namespace))} />
  <//>`
}

function Existing({ path, namespace, edit, after }) {
  const { data: v, error, refresh } = useQuery(at`/v1/var/${path}`, { params: { namespace }, topics: [`Variable:${path}`] })
  const [editing, setEditing] = useState(edit)
  const folders = path.split('/').slice(0, -1)
  const crumbs = [{ href: '/ui/variables', label: 'Variables' }, ...folders.map((label, i) => ({ href: folderHref(folders.slice(0, i + 1).join('/'), namespace), label }))]
  async function done() {
    setEditing(false)
    await refresh()
  }
  const gone = error?.status === 404
  return html`<${Page} title=${path} crumbs=${crumbs} status=${html`<span class="tag">namespace <${Name} of=${namespace} /></span>`}
    actions=${v && !gone && !editing && html`<button type="button" class="button primary" onClick=${() => setEditing(true)}>Edit</button>
      <${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete} variable=${v} onClose=${close} />`} />`}>
    ${gone && v ? html`<${Notice} tone="warn" title="This variable was deleted.">${editing ? 'Your changes are still in the form.' : 'What you see was its last state.'}<//>` : html`<${Failure} error=${error} what="this variable" />`}
    ${!v && !error && html`<${Loading} />`}
    ${v && (editing
      ? html`<${VariableForm} variable=${v} onCancel=${() => setEditing(false)} onDone=${done} />`
      : html`<${Facts} rows=${[['Created', html`<${Ago} at=${v.CreateTime} />`], ['Changed', html`<${Ago} at=${v.ModifyTime} />`], ['Modify index', String(v.ModifyIndex)], ['Lock', v.Lock && `locked, TTL ${v.Lock.TTL}`]]} />
        <${Section} title="Items"><${Items} items=${v.Items ?? {}} /><//>`)}
    ${!editing && html`<${Readers} path=${path} namespace=${namespace} after=${after} />`}
  <//>`
}

function Delete({ variable, onClose }) {
  const [seen] = useState(variable) // the page goes on behind the dialog
  async function confirm() {
    try {
      await api.del(at`/v1/var/${seen.Path}`, { namespace: seen.Namespace, cas: seen.ModifyIndex })
    } catch (error) {
      throw error.status === 409 ? new Error('Someone else changed this variable since you opened this dialog. Nothing was deleted.') : error
    }
    navigate(folderHref(seen.Path.split('/').slice(0, -1).join('/'), seen.Namespace))
  }
  return html`<${Dialog} title="Delete the variable?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>All items of <strong><${Name} of=${seen.Path} /></strong> are deleted. They cannot be restored.</p>
  <//>`
}
