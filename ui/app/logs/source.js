// One log of a task: it reads what was written since the last time.
//
// A log is not followed by a stream, because a browser opens at most six connections to an agent for
// all of its windows. Each read asks for the end of the log instead, and finds the position of the
// last read in it: frames have the number of their file and their offset in it.
import { at, send } from '../lib/api.js'

const FIRST = 64 << 10 // bytes of the first read
const LEAST = 1 << 10
const MOST = 1 << 20 // of one read: what was written before is left out

export class LogSource {
  #at = null // {file, offset}: the position after the last byte
  #want = FIRST
  #decoder = new TextDecoder()

  /** @param {{alloc: string, namespace: string, task: string, type: 'stdout'|'stderr'}} log */
  constructor(log) {
    this.log = log
  }

  /**
   * Reads the text that is new.
   * @returns {Promise<{text: string, skipped: boolean}>} skipped is true if text before it was left out
   */
  async read(signal) {
    for (let want = this.#want; ; want = Math.min(want * 8, MOST)) {
      const frames = await this.#end(want, signal)
      const found = newer(frames, this.#at)
      if (found.joins || want === MOST || this.#at === null) return this.#take(frames, found)
    }
  }

  #take(frames, { parts, joins }) {
    if (!joins) this.#decoder = new TextDecoder()
    const text = parts.map((p) => this.#decoder.decode(p, { stream: true })).join('')
    const size = parts.reduce((n, p) => n + p.length, 0)
    this.#want = Math.min(MOST, Math.max(LEAST, 2 * size))
    if (frames.length > 0) this.#at = frames.at(-1).end
    return { text, skipped: !joins }
  }

  /** Returns the last bytes of the log as frames: their bytes, and the positions before and after. */
  async #end(size, signal) {
    const { alloc, namespace, task, type } = this.log
    const response = await send('GET', at`/v1/client/fs/logs/${alloc}`, { params: { namespace, task, type, origin: 'end', offset: size }, signal })
    return objects(await response.text()).filter((f) => f.Data).map((f) => {
      const bytes = Uint8Array.from(atob(f.Data), (c) => c.charCodeAt(0))
      const file = Number(f.File.slice(f.File.lastIndexOf('.') + 1))
      return { bytes, start: { file, offset: f.Offset - bytes.length }, end: { file, offset: f.Offset } }
    })
  }
}

const compare = (a, b) => a.file - b.file || a.offset - b.offset

/** Returns the bytes after a position. joins is true if nothing is missing between the position and them. */
function newer(frames, position) {
  if (frames.length === 0) return { parts: [], joins: true }
  const first = frames[0].start
  const replaced = position !== null && compare(frames.at(-1).end, position) < 0 // the log began again
  if (position === null || replaced) return { parts: frames.map((f) => f.bytes), joins: replaced || (first.file === 0 && first.offset === 0) }
  const parts = frames.filter((f) => compare(f.end, position) > 0)
    .map((f) => (f.start.file === position.file ? f.bytes.subarray(Math.max(0, position.offset - f.start.offset)) : f.bytes))
  return { parts, joins: compare(first, position) <= 0 }
}

/** Splits JSON objects that follow each other without a separator. */
export function objects(text) {
  const out = []
  let depth = 0
  let start = 0
  for (const m of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}]/g)) {
    if (m[0] === '{' && depth++ === 0) start = m.index
    if (m[0] === '}' && --depth === 0) out.push(JSON.parse(text.slice(start, m.index + 1)))
  }
  return out
}
