import { html } from '../lib/dom.js'

// Paths on a grid of 16 by 16. Each status has a shape of its own, so that colour is never needed.
const PATHS = {
  ok: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.6 5.3-4.2 4.6a.8.8 0 0 1-1.2 0L4.4 9l1.2-1.1 1.2 1.3 3.6-4Z',
  run: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM6.3 4.9 11.4 8l-5.1 3.1Z',
  wait: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6Zm.8 2H7.2v4l2.9 1.8.8-1.3-2.1-1.3Z',
  warn: 'M8 1.2 15.2 14H.8ZM7.2 6v4h1.6V6Zm0 5v1.6h1.6V11Z',
  bad: 'M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Zm.3 3.3L4.3 5.4 6.9 8l-2.6 2.6 1.1 1.1L8 9.1l2.6 2.6 1.1-1.1L9.1 8l2.6-2.6-1.1-1.1L8 6.9Z',
  off: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm-3 6.2h6v1.6H5Z',
  stop: 'M3 3h10v10H3Z',
  unknown: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6Z',
  lock: 'M8 1a3.5 3.5 0 0 0-3.5 3.5V7H3v8h10V7h-1.5V4.5A3.5 3.5 0 0 0 8 1Zm-2 6V4.5a2 2 0 1 1 4 0V7Z',
  shield: 'M8 .8 14 3v4.6c0 3.6-2.4 6.2-6 7.6-3.6-1.4-6-4-6-7.6V3Z',
  link: 'M9 2h5v5h-1.6V4.7L7.6 9.5 6.5 8.4l4.8-4.8H9ZM3 4h4v1.6H3.6v6.8h6.8V9H12v5H2V4Z',
  menu: 'M1 3h14v1.7H1Zm0 4.2h14v1.7H1Zm0 4.2h14v1.7H1Z',
  next: 'm5.6 2.6 1.2-1.2L13.4 8l-6.6 6.6-1.2-1.2L11 8Z',
  prev: 'M10.4 2.6 9.2 1.4 2.6 8l6.6 6.6 1.2-1.2L5 8Z',
  search: 'M7 1a6 6 0 1 0 3.6 10.8l3.3 3.3 1.2-1.2-3.3-3.3A6 6 0 0 0 7 1Zm0 1.7a4.3 4.3 0 1 1 0 8.6 4.3 4.3 0 0 1 0-8.6Z',
}

/** A decorative icon. The text beside it has the meaning. */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path fill="currentColor" fill-rule="evenodd" d=${PATHS[name] ?? PATHS.unknown} /></svg>`
}
