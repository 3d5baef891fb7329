import { useCallback, useEffect, useLayoutEffect, useRef, useState } from './dom.js'
import { api, url } from './api.js'
import { subscribe } from './live.js'

/** The shortest time between two reads that events cause. Many events can arrive at once. */
const GAP = 1000

const EMPTY = { data: undefined, error: null, index: 0, next: '', loading: true }

/**
 * Reads a path and keeps the data up to date by the event stream.
 * @param {string|null} path made by at; null reads nothing
 * @param {{params?: object, topics?: string[], namespace?: string, gap?: number}} [options]
 * @returns {{data: any, error: Error|null, index: number, next: string, loading: boolean, refresh: () => Promise<void>}}
 *   data is undefined until the first answer. After a failed read, the last data stays beside the error.
 */
export function useQuery(path, { params = {}, topics = [], namespace = params.namespace, gap = GAP } = {}) {
  const key = path === null ? null : url(path, params)
  const [result, setResult] = useState({ key, ...EMPTY })
  const latest = useRef(null)
  const subscriber = useRef(null)

  const refresh = useCallback(async () => {
    if (key === null) return
    latest.current?.abort()
    const control = latest.current = new AbortController()
    try {
      const { data, index, next } = await api.get(path, params, control.signal)
      if (control.signal.aborted) return
      if (subscriber.current) subscriber.current.index = index
      setResult({ key, data, error: null, index, next, loading: false })
    } catch (error) {
      if (control.signal.aborted) return
      setResult((old) => ({ ...(old.key === key ? old : { key, ...EMPTY }), error, loading: false }))
    }
  }, [key])

  useLayoutEffect(() => { // before the page is painted: the request takes as long as the painting
    refresh()
    return () => latest.current?.abort()
  }, [refresh])

  const topicKey = topics.join(' ')
  const known = result.key === key && !result.loading
  useEffect(() => {
    if (key === null || topics.length === 0 || !known) return undefined
    const change = spaced(refresh, gap)
    subscriber.current = { topics, namespace, index: result.index, onEvent: change, onResume: change }
    const end = subscribe(subscriber.current)
    return () => {
      end()
      change.cancel()
      subscriber.current = null
    }
  }, [refresh, topicKey, namespace, known])

  const shown = result.key === key ? result : { key, ...EMPTY }
  return { ...shown, refresh }
}

/** Returns a function that calls fn at once, and then at most once per gap. The last call is not lost. */
function spaced(fn, gap) {
  let timer = 0
  let again = false
  const run = () => {
    if (timer) {
      again = true
      return
    }
    fn()
    timer = setTimeout(() => {
      timer = 0
      if (again) {
        again = false
        run()
      }
    }, gap)
  }
  run.cancel = () => clearTimeout(timer)
  return run
}
