// Live updates: one event stream for all that the window shows.
//
// A page subscribes to topics and is called for each event of them. It then reads its data again: the
// event only reports that something changed, so that paging, filters and rights stay with the server.
// The stream ends while the window is hidden, because a browser opens at most six connections to an
// agent for all of its windows. At most STREAMS windows have one; further windows read every ten seconds.
import { Store } from './store.js'
import { send } from './api.js'
import { session } from './session.js'

/**
 * The state of the updates: idle (nothing subscribed), connecting, live, polling (the token may not
 * read the stream, so that subscribers are called every ten seconds), lost (no answer; tries again).
 */
export const live = new Store('idle')

const STREAMS = 4
const POLL = 10_000
const RETRY_FIRST = 1000
const RETRY_MOST = 30_000

/** @type {Set<{topics: string[], namespace: string, index: number, onEvent: Function, onResume: Function}>} */
const subscribers = new Set()
let running = null // AbortController of the stream
let wanted = '' // topics and namespace of the stream
let timer = 0

/**
 * Subscribes to events.
 * @param {{topics: string[], namespace?: string, index?: number, onEvent: (event: object) => void, onResume: () => void}} subscriber
 *   topics are Topic or Topic:key, as in the API. index is that of the data shown: older events are
 *   not reported. onResume is called when events may have been missed.
 * @returns {() => void} ends the subscription
 */
export function subscribe(subscriber) {
  subscribers.add(subscriber)
  schedule()
  return () => {
    subscribers.delete(subscriber)
    schedule()
  }
}

/** Starts the stream again if the topics changed. The delay gathers the subscribers of one page. */
function schedule() {
  clearTimeout(timer)
  timer = setTimeout(restart, 50)
}

function topicsOf() {
  const namespaces = new Set([...subscribers].map((s) => s.namespace || '*'))
  return {
    topics: [...new Set([...subscribers].flatMap((s) => s.topics))].sort(),
    namespace: namespaces.size === 1 ? [...namespaces][0] : '*',
  }
}

function restart({ force = false } = {}) {
  const scope = topicsOf()
  const now = JSON.stringify(scope)
  if (!force && now === wanted && running) return
  running?.abort()
  running = null
  wanted = now
  if (document.hidden || scope.topics.length === 0) {
    live.set('idle')
    return
  }
  running = new AbortController()
  run(scope, running.signal)
}

async function run(scope, signal) {
  live.set('connecting')
  if (!await reserve(signal)) return poll(signal)
  // Without subscribers at this moment, a new one can come before the stream is ended.
  let next = subscribers.size > 0 ? Math.min(...[...subscribers].map((s) => s.index || 0)) + 1 : 1
  for (let wait = RETRY_FIRST; !signal.aborted; wait = Math.min(wait * 2, RETRY_MOST)) {
    try {
      next = await follow(scope, next, signal, () => { wait = RETRY_FIRST })
    } catch (err) {
      if (signal.aborted) return
      if (err.status === 401 || err.status === 403) return poll(signal)
    }
    if (signal.aborted) return
    live.set('lost')
    await pause(wait, signal)
    if (!signal.aborted) resume()
  }
}

/** Reserves one of the streams of this browser until signal is aborted, and reports whether one was free. */
async function reserve(signal) {
  if (!navigator.locks) return true // plain HTTP from another host: windows cannot agree
  for (let n = 0; n < STREAMS && !signal.aborted; n++) {
    const got = await new Promise((done) => {
      navigator.locks.request(`nomad.stream.${n}`, { ifAvailable: true }, (lock) => {
        done(lock !== null)
        return lock && new Promise((end) => signal.addEventListener('abort', end, { once: true }))
      })
    })
    if (got) return true
  }
  return false
}

/** Reads the stream until it ends, and returns the index at which the next one begins. */
async function follow({ topics, namespace }, next, signal, opened) {
  const query = new URLSearchParams({ namespace, index: String(next) })
  for (const topic of topics) query.append('topic', topic)
  const response = await send('GET', `/v1/event/stream?${query}`, { signal })
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  live.set('live')
  opened()
  for (let text = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return next
    const lines = (text + value).split('\n')
    text = lines.pop()
    for (const line of lines) {
      const batch = JSON.parse(line)
      if (batch.Index) next = batch.Index + 1
      for (const event of batch.Events ?? []) dispatch(event)
    }
  }
}

function dispatch(event) {
  for (const s of [...subscribers]) {
    if (event.Index > (s.index || 0) && s.topics.some((topic) => covers(topic, event))) s.onEvent(event)
  }
}

function covers(topic, event) {
  const [name, ...rest] = topic.split(':')
  const key = rest.join(':')
  if (name !== '*' && name !== event.Topic) return false
  return key === '' || key === '*' || key === event.Key || (event.FilterKeys ?? []).includes(key)
}

async function poll(signal) {
  live.set('polling')
  while (!signal.aborted) {
    await pause(POLL, signal)
    if (!signal.aborted) resume()
  }
}

const resume = () => { for (const s of [...subscribers]) s.onResume() }

const pause = (ms, signal) => new Promise((done) => {
  const t = setTimeout(done, ms)
  signal.addEventListener('abort', () => { clearTimeout(t); done() }, { once: true })
})

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) resume()
  schedule()
})

let last = ''
session.subscribe(({ state, self }) => {
  const now = `${state} ${self?.AccessorID ?? ''}`
  if (now !== last && last !== '') { // another caller has other rights
    restart({ force: true })
    resume()
  }
  last = now
})
