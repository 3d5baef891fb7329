// The variables: the folders and variables below a path, or a search over all paths.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { folderHref, variableHref } from '../lib/links.js'
import { href, pushQuery } from '../lib/router.js'
import { useQuery } from '../lib/query.js'
import { List } from '../parts/list.js'
import { Name } from '../parts/name.js'
import { Namespaces } from '../parts/namespaces.js'
import { Empty, Failure, Loading } from '../parts/notice.js'
import { Page, Tabs } from '../parts/page.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'

const PER_PAGE = 500

export default function Variables({ params, query }) {
  const folder = (params.path ?? '').replace(/\/+$/, '')
  const searching = query.has('search')
  const parents = folder.split('/').slice(0, -1).map((name, i, all) => ({ href: folderHref(all.slice(0, i + 1).join('/'), query.get('namespace')), label: name }))
  const tabs = [{ href: folderHref('', query.get('namespace')), label: 'Folders' }, { href: href('/ui/variables', { search: '1' }), label: 'Search' }]
  return html`<${Page} title=${folder || 'Variables'} crumbs=${folder ? [{ href: '/ui/variables', label: 'Variables' }, ...parents] : []}
    actions=${html`<a class="button primary" href=${href('/ui/variables/new', { path: folder ? `${folder}/` : '', namespace: query.get('namespace') })}>Create a variable</a>`}
    tabs=${!folder && html`<${Tabs} label="Ways to the variables" tabs=${tabs} current=${tabs[searching ? 1 : 0].href} />`}>
    ${searching ? html`<${Search} />` : html`<${Folder} folder=${folder} query=${query} />`}
  <//>`
}

const variableLink = (v) => html`<a href=${variableHref(v.Path, v.Namespace)}><${Name} of=${v.Path} /></a>`
const CHANGED = { label: 'Changed', kind: 'narrow', cell: (v) => v.ModifyTime && html`<${Ago} at=${v.ModifyTime} />` }
const NAMESPACE = { label: 'Namespace', cell: (v) => html`<${Name} of=${v.Namespace} />` }
const LOCKED = { label: 'Lock', kind: 'narrow', cell: (v) => (v.Lock ? 'locked' : '') }

function Search() {
  const columns = [{ label: 'Path', head: true, cell: variableLink }, NAMESPACE, LOCKED, CHANGED]
  return html`<${List} path=${at`/v1/vars`} what="variables" columns=${columns} rowKey=${(v) => `${v.Namespace} ${v.Path}`} search=${['Path']} namespaced topics=${['Variable']} />`
}

function Folder({ folder, query }) {
  const namespace = query.get('namespace') || '*'
  const prefix = folder ? `${folder}/` : ''
  const result = useQuery(at`/v1/vars`, { params: { prefix, namespace, per_page: PER_PAGE, next_token: query.get('after') }, topics: ['Variable'] })
  const entries = entriesOf(result.data ?? [], prefix)
  const next = result.next && afterLast(entries.at(-1), prefix, result.next)
  const columns = [
    { label: 'Name', head: true, cell: (e) => (e.folder
      ? html`<a href=${folderHref(prefix + e.folder, e.Namespace)}><${Name} of=${`${e.folder}/`} /></a>`
      : html`<a href=${variableHref(e.Path, e.Namespace)}><${Name} of=${e.Path.slice(prefix.length)} /></a>`) },
    { label: 'Kind', kind: 'narrow', cell: (e) => (e.folder ? 'folder' : 'variable') }, NAMESPACE, LOCKED, CHANGED,
  ]
  return html`
    <div class="list-tools"><${Namespaces} value=${namespace} onChange=${(v) => pushQuery({ namespace: v === '*' ? null : v, after: null })} /></div>
    <${Failure} error=${result.error} what="variables" />
    ${result.data === undefined && !result.error && html`<${Loading} />`}
    ${entries.length > 0 && html`<${Table} caption="variables" columns=${columns} rows=${entries} rowKey=${(e) => `${e.Namespace} ${e.folder ?? ''} ${e.Path ?? ''}`} busy=${result.loading} />`}
    ${result.data?.length === 0 && html`<${Empty}><p>There are no variables here that you may list.</p>
      ${!folder && html`<p><code>nomad var put nomad/jobs/example key=value</code> stores the first one.</p>`}<//>`}
    ${(next || query.get('after')) && html`<nav class="pager" aria-label="Pages of variables"><span></span>
      ${query.get('after') && html`<button type="button" class="button" onClick=${() => pushQuery({ after: null })}>First page</button>`}
      ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ after: next })}>Next</button>`}</nav>`}`
}

/** Returns the folders and the variables directly below prefix, in the order of their paths. */
export function entriesOf(list, prefix) {
  const entries = []
  const seen = new Set()
  for (const v of list) {
    const rest = v.Path.slice(prefix.length)
    const slash = rest.indexOf('/')
    if (slash < 0) {
      entries.push(v)
      continue
    }
    const folder = rest.slice(0, slash)
    const key = `${v.Namespace} ${folder}`
    if (!seen.has(key)) entries.push({ Namespace: v.Namespace, folder })
    seen.add(key)
  }
  return entries
}

/** Returns the token of the next page. The rest of a folder at the end of this page is skipped: "0" follows "/". */
export function afterLast(last, prefix, next) {
  const inside = last?.folder !== undefined && next.startsWith(`${last.Namespace}.${prefix}${last.folder}/`)
  return inside ? `${last.Namespace}.${prefix}${last.folder}0` : next
}
