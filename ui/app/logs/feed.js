// The lines of several logs, in the order in which they were read. A limited number is kept.
import { Store } from '../lib/store.js'
import { LogSource } from './source.js'

/** The lines that are kept. Older ones are removed. */
export const KEPT = 2000

const LONGEST = 4096 // characters of a line; longer ones are split
const EVERY = 1000 // milliseconds between two reads
const ROUNDS = 10 // rounds without a read after an error
const AT_ONCE = 2 // reads at the same time: the other connections of the browser stay free

/**
 * @typedef {{key: string, alloc: string, namespace: string, task: string, type: string, ended: boolean}} Log
 * @typedef {{id: number, key: string, text: string, mark: boolean}} Line mark is true for notes of the feed
 */
export class Feed {
  /** @type {Line[]} */
  lines = []
  /** Changes when lines or errors do. */
  version = new Store(0)
  /** The errors of the last reads, by key. */
  errors = new Map()
  #readers = new Map() // by key: {source, open, done, wait}
  #logs = []
  #next = 0

  /** Sets the logs that are read. Positions of logs that were read before are kept. @param {Log[]} logs */
  show(logs) {
    this.#logs = logs
  }

  clear() {
    this.lines = []
    for (const r of this.#readers.values()) r.open = null
    this.#changed()
  }

  /** Reads until signal is aborted. */
  async run(signal) {
    while (!signal.aborted) {
      if (!document.hidden) await this.#round(signal)
      await new Promise((done) => { setTimeout(done, EVERY) })
    }
  }

  async #round(signal) {
    const waiting = [...this.#logs]
    const work = async () => {
      for (let log = waiting.shift(); log && !signal.aborted; log = waiting.shift()) await this.#read(log, signal)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  }

  async #read(log, signal) {
    const reader = this.#readers.get(log.key) ?? { source: new LogSource(log), open: null, done: false, wait: 0 }
    this.#readers.set(log.key, reader)
    if (reader.done && log.ended || reader.wait-- > 0) return
    try {
      const { text, skipped } = await reader.source.read(signal)
      if (signal.aborted) return
      if (skipped) this.#skip(log, reader)
      this.#add(log, reader, skipped ? text.slice(text.indexOf('\n') + 1) : text)
      reader.done = log.ended && text === '' // the node reads once more after the task ended
      if (this.errors.delete(log.key) || text !== '') this.#changed()
    } catch (err) {
      if (signal.aborted) return
      reader.done = log.ended
      reader.wait = ROUNDS
      this.errors.set(log.key, err)
      this.#changed()
    }
  }

  #skip(log, reader) {
    reader.open = null
    this.#push({ key: log.key, text: 'Earlier lines are left out.', mark: true })
  }

  /** Adds text. The last line stays open until its end is read. */
  #add(log, reader, text) {
    const parts = text.split(/\r?\n/)
    parts.forEach((part, i) => {
      for (let rest = part; rest !== ''; rest = rest.slice(LONGEST)) this.#append(log, reader, rest.slice(0, LONGEST))
      if (i === parts.length - 1) return
      if (part === '' && !reader.open) this.#push({ key: log.key, text: '', mark: false })
      reader.open = null
    })
  }

  #append(log, reader, text) {
    const open = reader.open
    if (open && open.text.length + text.length <= LONGEST) {
      open.text += text
      open.view = null
    } else {
      reader.open = this.#push({ key: log.key, text, mark: false })
    }
  }

  #push(line) {
    const added = { id: this.#next++, ...line }
    this.lines.push(added)
    if (this.lines.length > KEPT + 200) this.lines.splice(0, this.lines.length - KEPT)
    return added
  }

  #changed() {
    if (this.lines.length > KEPT) this.lines.splice(0, this.lines.length - KEPT)
    this.version.set(this.version.value + 1)
  }
}
