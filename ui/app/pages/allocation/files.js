// The files of an allocation: directories, and the text of files in pages. The path is in the URL.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { visible } from '../../lib/format.js'
import { fileHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { Failure, Loading } from '../../parts/notice.js'
import { Directory } from './directory.js'
import { File } from './file.js'

export function Files({ alloc: a, query }) {
  const path = query.get('path') || '/'
  const params = { namespace: a.Namespace, path }
  const { data: info, error } = useQuery(at`/v1/client/fs/stat/${a.ID}`, { params })
  return html`
    <${Crumbs} alloc=${a.ID} path=${path} />
    <${Failure} error=${error} what="the files" />
    ${!info && !error && html`<${Loading} />`}
    ${info?.IsDir && html`<${Directory} key=${path} alloc=${a} path=${path} />`}
    ${info && !info.IsDir && html`<${File} key=${path} alloc=${a} path=${path} info=${info} offset=${offsetOf(query)} />`}`
}

function offsetOf(query) {
  const n = Number(query.get('offset') ?? 0)
  return Number.isSafeInteger(n) && n > 0 ? n : 0
}

function Crumbs({ alloc, path }) {
  const names = path.split('/').filter(Boolean)
  return html`<nav class="crumbs path" aria-label="Path"><ol>
    <li><a href=${fileHref(alloc, '/')}>Root</a></li>
    ${names.map((name, i) => html`<li><a href=${fileHref(alloc, `/${names.slice(0, i + 1).join('/')}`)} aria-current=${i === names.length - 1 ? 'page' : null}><bdi class="name">${visible(name)}</bdi></a></li>`)}
  </ol></nav>`
}
