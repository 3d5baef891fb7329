// Texts for values of the API.

/** The first group of a UUID. */
export const shortID = (id) => String(id ?? '').slice(0, 8)

/** Converts a time of the API to a Date: nanoseconds since 1970, or RFC 3339; null for none. */
export function toDate(value) {
  if (!value) return null
  const date = typeof value === 'number' ? new Date(value / 1e6) : new Date(value)
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1971 ? null : date
}

/** Returns a date in the time zone of the browser, such as "2026-03-01 14:05:09". */
export function localTime(date) {
  const [month, day, ...clock] = [date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, '0'))
  return `${date.getFullYear()}-${month}-${day} ${clock.join(':')}`
}

const UNITS = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]]

/** Returns a duration in its two largest units, such as "3h 5m". */
export function duration(seconds) {
  let left = Math.max(0, Math.round(seconds))
  const parts = []
  for (const [unit, size] of UNITS) {
    const n = Math.floor(left / size)
    if (n > 0 || parts.length > 0) parts.push(n > 0 ? `${n}${unit}` : '')
    left -= n * size
    if (parts.length === 2) break
  }
  return parts.filter(Boolean).join(' ') || '0s'
}

/** Returns a duration of the API, which is in nanoseconds. */
export const nanoseconds = (ns) => (ns < 1e9 ? `${Math.round(ns / 1e6)}ms` : duration(ns / 1e9))

/** Returns a whole number with commas. Intl would delay the first page: its data take 15 ms to load. */
export const count = (n) => String(Math.round(n ?? 0)).replace(/\B(?=(\d{3})+$)/g, ',')

/** Returns a word with its number: plural(1, 'node') is "1 node". */
export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`

/** Returns a size in MiB or GiB. */
export function mebibytes(mb) {
  return mb >= 10240 ? `${(mb / 1024).toFixed(mb >= 102400 ? 0 : 1)} GiB` : `${count(mb)} MiB`
}

/** Returns a size of bytes. */
export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (n < 1024 || unit === 'TiB') return `${unit === 'B' ? n : n.toFixed(1)} ${unit}`
    n /= 1024
  }
  return ''
}

/** Returns the segments of a topology, such as "rack=r1 zone=a". */
export const segments = (topology) => Object.entries(topology?.Segments ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${key}=${value}`).join(' ')

export const percent = (part, whole) => (whole > 0 ? Math.round((part / whole) * 100) : 0)

/** Makes the first letter a capital. */
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : '')

/** Isolates a name in a text without markup, such as a title: it can contain right-to-left text. */
export const isolated = (name) => `\u2068${name}\u2069`

// C0 and C1 controls except the tab, and the characters that set the direction of text.
const INVISIBLE = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Makes control characters and marks of direction visible, as their number. */
export const visible = (text) => String(text).replace(INVISIBLE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
