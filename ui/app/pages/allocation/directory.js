// One directory of an allocation.
import { html, useState } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { bytes, count, visible } from '../../lib/format.js'
import { fileHref } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { Field } from '../../parts/field.js'
import { Icon } from '../../parts/icon.js'
import { Empty, Failure, Loading } from '../../parts/notice.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'

const SHOWN = 500 // entries; a name narrows the list

export function Directory({ alloc: a, path }) {
  const [text, setText] = useState('')
  const { data, error, refresh } = useQuery(at`/v1/client/fs/ls/${a.ID}`, { params: { namespace: a.Namespace, path } })
  if (!data) return error ? html`<${Failure} error=${error} what="this directory" />` : html`<${Loading} />`
  const found = data.filter((f) => f.Name.includes(text)).sort((x, y) => y.IsDir - x.IsDir || (x.Name < y.Name ? -1 : 1))
  const rows = found.slice(0, SHOWN)
  return html`
    <div class="list-tools" role="search" aria-label="Filter files"><${Field} label="Name contains" value=${text} onInput=${setText} />
      <button type="button" class="button" onClick=${refresh}>Read again</button></div>
    <${Failure} error=${error} what="this directory" />
    ${rows.length === 0 && html`<${Empty}><p>${data.length === 0 ? 'The directory is empty.' : 'No name contains the text.'}</p><//>`}
    ${rows.length > 0 && html`<${Table} caption="Files" rows=${rows} rowKey=${(f) => f.Name} columns=${columns(a, path)} />`}
    ${found.length > SHOWN && html`<p class="muted small">${count(SHOWN)} of ${count(found.length)} entries. Type a part of the name to narrow the list.</p>`}`
}

const columns = (a, path) => [
  { label: 'Name', head: true, cell: (f) => html`<a href=${fileHref(a.ID, join(path, f.Name))}><bdi class="name">${visible(f.Name)}${f.IsDir && '/'}</bdi></a>${f.FileMode.startsWith('L') && html` <span class="muted small"><${Icon} name="link" />symbolic link</span>`}` },
  { label: 'Size', kind: 'number', cell: (f) => (f.IsDir ? '' : bytes(f.Size)) },
  { label: 'Mode', kind: 'narrow', cell: (f) => html`<code>${f.FileMode}</code>` },
  { label: 'Changed', kind: 'narrow', cell: (f) => html`<${Ago} at=${f.ModTime} />` },
]

const join = (path, name) => `${path.replace(/\/+$/, '')}/${name}`
