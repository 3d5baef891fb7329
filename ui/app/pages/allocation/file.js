// One file of an allocation: a part of its text, and its download.
import { html, useEffect, useState } from '../../lib/dom.js'
import { at, send } from '../../lib/api.js'
import { bytes, visible } from '../../lib/format.js'
import { fileHref } from '../../lib/links.js'
import { Failure, Loading, Notice } from '../../parts/notice.js'
import { Facts } from '../../parts/page.js'
import { Ago } from '../../parts/time.js'

const PART = 64 << 10 // bytes that are shown at once
const DOWNLOAD = 256 << 20 // bytes of a download: the browser keeps all of them until it is complete

export function File({ alloc: a, path, info, offset }) {
  const { part, error } = usePart(a, path, offset)
  return html`
    <${Facts} rows=${[['Size', bytes(info.Size)], ['Mode', html`<code>${info.FileMode}</code>`], ['Changed', html`<${Ago} at=${info.ModTime} />`], ['Type', info.ContentType]]} />
    <div class="list-tools file-tools">
      <${Parts} alloc=${a.ID} path=${path} offset=${offset} size=${info.Size} />
      <${Download} alloc=${a} path=${path} size=${info.Size} />
    </div>
    <${Failure} error=${error} what="this file" />
    ${!part && !error && html`<${Loading} />`}
    ${part && html`<${Part} bytes=${part} />`}`
}

/** Reads a part of a file. */
function usePart(a, path, offset) {
  const [result, setResult] = useState({})
  useEffect(() => {
    const control = new AbortController()
    setResult({})
    send('GET', at`/v1/client/fs/readat/${a.ID}`, { params: { namespace: a.Namespace, path, offset, limit: PART }, signal: control.signal })
      .then((r) => r.arrayBuffer())
      .then((b) => setResult({ part: new Uint8Array(b) }), (error) => control.signal.aborted || setResult({ error }))
    return () => control.abort()
  }, [a.ID, path, offset])
  return result
}

function Part({ bytes: part }) {
  if (part.length === 0) return html`<p class="muted">Nothing is here: the file is empty, or it has become shorter.</p>`
  if (part.includes(0)) return html`<${Notice}>This part of the file is not text. It can be downloaded.<//>`
  const text = new TextDecoder().decode(part)
  return html`<pre class="file" tabindex="0" role="region" aria-label="Text of the file"><bdi>${text.split(/\r?\n/).map(visible).join('\n')}</bdi></pre>`
}

/** Links to the parts of a long file. */
function Parts({ alloc, path, offset, size }) {
  if (size <= PART && offset === 0) return null
  const last = Math.max(0, Math.floor((size - 1) / PART) * PART)
  const links = [['First', 0, offset > 0], ['Previous', Math.max(0, offset - PART), offset > 0], ['Next', offset + PART, offset + PART < size], ['Last', last, offset < last]]
  return html`<nav class="actions" aria-label="Parts of the file">
    ${links.filter(([, , usable]) => usable).map(([label, to]) => html`<a class="button" key=${label} href=${fileHref(alloc, path, to)}>${label}</a>`)}
    <span class="muted small">bytes ${offset} to ${Math.min(size, offset + PART)} of ${size}</span></nav>`
}

function Download({ alloc: a, path, size }) {
  const [state, setState] = useState({})
  if (size > DOWNLOAD) return html`<p class="muted small">Files above ${bytes(DOWNLOAD)} are downloaded with <code>nomad alloc fs</code>.</p>`
  async function download() {
    setState({ busy: true })
    try {
      save(await contents(a, path), path.slice(path.lastIndexOf('/') + 1))
      setState({})
    } catch (error) {
      setState({ error })
    }
  }
  return html`<button type="button" class="button" disabled=${state.busy} onClick=${download}>${state.busy ? 'Downloading …' : 'Download'}</button>
    <${Failure} error=${state.error} what="this file" />`
}

/** Returns the contents of a file. The request has the token in a header, which a link cannot have. */
async function contents(a, path) {
  const response = await send('GET', at`/v1/client/fs/readat/${a.ID}`, { params: { namespace: a.Namespace, path, offset: 0, limit: DOWNLOAD } })
  return new Blob([await response.arrayBuffer()], { type: 'application/octet-stream' })
}

function save(blob, name) {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000) // the browser has opened it by then
}
