import { html, useEffect, useState } from '../lib/dom.js'
import { duration, localTime, toDate } from '../lib/format.js'

/** A time as its distance from now, such as "5m ago". The exact time is in the title. */
export function Ago({ at }) {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000)
    return () => clearInterval(timer)
  }, [])
  const date = toDate(at)
  if (!date) return '–'
  const seconds = (now - date.getTime()) / 1000
  const text = Math.abs(seconds) < 5 ? 'now' : seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`
  return html`<time datetime=${date.toISOString()} title=${localTime(date)}>${text}</time>`
}
