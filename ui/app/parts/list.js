import { html, useEffect, useId, useState } from '../lib/dom.js'
import { all, contains } from '../lib/filter.js'
import { place, pushQuery, replaceQuery } from '../lib/router.js'
import { useQuery } from '../lib/query.js'
import { session } from '../lib/session.js'
import { useStore } from '../lib/store.js'
import { Icon } from './icon.js'
import { Empty, Failure, Loading } from './notice.js'
import { Namespaces } from './namespaces.js'
import { Table } from './table.js'

const PER_PAGE = 50
const TYPING = 250 // milliseconds without a key before the filter is sent

/**
 * A list that the server pages and filters. The text, the facets, the namespace and the page are in
 * the query of the URL, so that a link shows the same list.
 *
 * @typedef {{key: string, label: string, options: {value: string, label: string, filter: string}[]}} Facet
 *   key is that of the URL; filter is an expression of the API
 * @param {{
 *   path: string, what: string, columns: import('./table.js').Column[], rowKey: (row: any) => string,
 *   params?: object, filter?: string, search?: string[], facets?: Facet[], namespaced?: boolean,
 *   topics?: string[], empty?: any
 * }} props
 *   path is that of the API. what names the rows ("jobs"). filter is a fixed expression. search are the
 *   fields for the text. namespaced adds the choice of a namespace ("*" at first).
 */
export function List({ path, what, columns, rowKey, params = {}, filter = '', search = [], facets = [], namespaced = false, topics = [], empty }) {
  const { query, state } = useStore(place)
  const text = query.get('q') ?? ''
  const chosen = facets.map((f) => f.options.find((o) => o.value === query.get(f.key))?.filter)
  const expression = all(filter, search.length > 0 && text ? contains(search, text) : '', ...chosen)
  const namespace = namespaced ? query.get('namespace') || '*' : params.namespace
  const result = useQuery(path, {
    params: { ...params, namespace, filter: expression, per_page: PER_PAGE, next_token: query.get('after') }, topics,
  })
  const rows = result.data ?? []
  const anonymous = useStore(session).state === 'anonymous'
  const narrowed = expression !== filter || (namespaced && namespace !== '*')

  return html`
    <div class="list-tools" role="search" aria-label=${`Filter ${what}`}>
      ${search.length > 0 && html`<${Search} what=${what} text=${text} fields=${search} />`}
      ${namespaced && html`<${Namespaces} value=${namespace} onChange=${(v) => restart({ namespace: v === '*' ? null : v })} />`}
      ${facets.map((f) => html`<${Choice} facet=${f} value=${query.get(f.key) ?? ''} />`)}
    </div>
    <${Failure} error=${result.error} what=${what} />
    ${result.data === undefined && !result.error && html`<${Loading} />`}
    ${rows.length > 0 && html`<${Table} caption=${what} columns=${columns} rows=${rows} rowKey=${rowKey} busy=${result.loading} />`}
    ${result.data !== undefined && rows.length === 0 && html`<${Empty}>${narrowed
      ? html`<p>No ${what} match the filter.</p><p><button type="button" class="button" onClick=${() => clear(facets)}>Clear the filter</button></p>`
      : anonymous ? html`<p>Without a token you may read no ${what}.</p><p><a href="/ui/settings/tokens">Sign in</a></p>`
        : empty ?? html`<p>There are no ${what}.</p>`}<//>`}
    <${Pager} what=${what} rows=${rows.length} next=${result.next} after=${query.get('after')} before=${state.before ?? []} />`
}

/** Changes the filter. The list begins again at its first page. */
const restart = (changes) => pushQuery({ ...changes, after: null })

const clear = (facets) => restart(Object.fromEntries(['q', 'namespace', ...facets.map((f) => f.key)].map((key) => [key, null])))

function Search({ what, text, fields }) {
  const id = useId()
  const [typed, setTyped] = useState(text)
  useEffect(() => setTyped(text), [text])
  useEffect(() => {
    if (typed === text) return undefined
    const timer = setTimeout(() => replaceQuery({ q: typed || null, after: null }), TYPING)
    return () => clearTimeout(timer)
  }, [typed])
  return html`<div class="field search">
    <label for=${id}>Search</label>
    <${Icon} name="search" />
    <input id=${id} type="search" value=${typed} maxlength="200" autocomplete="off" spellcheck="false" title=${`${fields.join(' or ')} contains this text, with the same case`}
      placeholder=${`Filter ${what}`} onInput=${(e) => setTyped(e.target.value)} />
  </div>`
}

function Choice({ facet, value }) {
  const id = useId()
  return html`<div class="field">
    <label for=${id}>${facet.label}</label>
    <select id=${id} value=${value} onChange=${(e) => restart({ [facet.key]: e.target.value || null })}>
      <option value="">All</option>
      ${facet.options.map((o) => html`<option value=${o.value}>${o.label}</option>`)}
    </select>
  </div>`
}

/**
 * The buttons between pages. A token leads forward only, so the tokens of the earlier pages are kept
 * in the history entry.
 */
function Pager({ what, rows, next, after, before }) {
  if (!next && !after) return null
  const first = before.length * PER_PAGE + 1
  const known = !after || before.length > 0 // a link can begin in the middle
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <span aria-live="polite">${known && rows > 0 ? `${first}–${first + rows - 1}` : ''}</span>
    ${after && html`<button type="button" class="button" onClick=${() => pushQuery({ after: before.at(-1) || null }, { before: before.slice(0, -1) })}>
      <${Icon} name="prev" />${before.length > 0 ? 'Previous' : 'First page'}</button>`}
    ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ after: next }, { before: [...before, after ?? ''] })}>Next<${Icon} name="next" /></button>`}
  </nav>`
}
