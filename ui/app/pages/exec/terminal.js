// The terminal of the page: xterm.js in the colours of the UI.
import { FitAddon } from '../../vendor/xterm/addon-fit.js'
import { Terminal } from '../../vendor/xterm/xterm.js'

const LINES = 5000 // of the history
const CONTRAST = 4.5 // programs choose colours that are not readable on every background

/**
 * Opens a terminal in an element, which is emptied.
 * @param {HTMLElement} box
 * @param {boolean} screenReader whether the output is read out; some input methods do not work then
 * @param {() => void} leave called for the keys that leave the terminal
 */
export async function openTerminal(box, screenReader, leave) {
  await style()
  box.replaceChildren()
  const term = new Terminal({ scrollback: LINES, minimumContrastRatio: CONTRAST, screenReaderMode: screenReader, cursorBlink: false, fontSize: 14, fontFamily: css('--mono'), theme: theme() })
  const fit = new FitAddon()
  term.loadAddon(fit)
  term.open(box)
  fit.fit()
  const watch = new ResizeObserver(() => fit.fit())
  watch.observe(box)
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const recolour = () => { term.options.theme = theme() }
  dark.addEventListener('change', recolour)
  const out = {
    onInput: () => {},
    onSize: () => {},
    size: () => ({ rows: term.rows, cols: term.cols }),
    write: (data, done) => term.write(data, done),
    focus: () => term.focus(),
    stop: () => { term.options.disableStdin = true; term.options.cursorInactiveStyle = 'none' },
    dispose: () => { watch.disconnect(); dark.removeEventListener('change', recolour); term.dispose() },
  }
  const encoder = new TextEncoder()
  term.onData((text) => out.onInput(encoder.encode(text)))
  term.onBinary((text) => out.onInput(Uint8Array.from(text, (c) => c.charCodeAt(0))))
  term.onResize(() => out.onSize(out.size()))
  term.attachCustomKeyEventHandler((e) => {
    if (!(e.ctrlKey && e.shiftKey && e.code === 'KeyL')) return true
    e.preventDefault()
    if (e.type === 'keydown') leave()
    return false
  })
  return out
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

function theme() {
  return { background: css('--surface'), foreground: css('--text'), cursor: css('--accent'), cursorAccent: css('--surface'), selectionBackground: css('--line-strong') }
}

let styled = null

/** Loads the style sheet of xterm.js once. */
function style() {
  styled ??= new Promise((done, fail) => {
    const link = document.createElement('link')
    link.rel = 'stylesheet'
    link.href = new URL('../../vendor/xterm/xterm.css', import.meta.url).href
    link.onload = done
    link.onerror = () => fail(new Error('the style sheet of the terminal could not be loaded'))
    document.head.append(link)
  })
  return styled
}
