// The place of keyboard users. Actions and events remove elements that have the focus: a promoted deployment
// has no buttons, and a deleted token has no row. The browser then takes the focus away, and Tab begins at the
// start of the document again. This module gives the focus to what is nearest.

let last = null // the element that has, or had, the focus
let around = [] // the elements that contained it, the nearest first
let position = 0 // of its button among the actions beside it
let byKeyboard = false

/** Starts to keep the focus. It is called once. */
export function keepFocus() {
  document.addEventListener('focusin', ({ target }) => remember(target))
  document.addEventListener('focusout', () => setTimeout(forget))
  new MutationObserver(restore).observe(document.body, { childList: true, subtree: true })
}

const isLost = () => last !== null && document.activeElement === document.body

function remember(target) {
  last = target
  byKeyboard = target.matches(':focus-visible')
  around = []
  for (let box = target.parentElement; box; box = box.parentElement) around.push(box)
  const button = target.closest('dialog')?.previousElementSibling ?? target // a dialog follows the button that opened it
  position = actionsOf(button.parentElement).indexOf(button)
}

/** Forgets an element that the user has left, by a click beside it. */
function forget() {
  if (isLost() && last.isConnected) last = null
}

function restore() {
  if (!isLost()) return
  const place = last.isConnected ? last : nearest() // keyed rows that change their order are connected again
  place?.focus({ preventScroll: !byKeyboard })
}

/** Returns where the user goes on: at another action, in the table, or at the heading of the part or of the page. */
function nearest() {
  for (const box of around.filter((b) => b.isConnected)) {
    const actions = box.matches('.actions') ? actionsOf(box).filter((b) => !b.disabled) : []
    if (actions.length > 0) return actions[Math.min(Math.max(position, 0), actions.length - 1)]
    if (box.matches('.table-scroll')) return box
    const heading = box.matches('article, section, dialog') && box.querySelector('h2, h3')
    if (heading) {
      heading.tabIndex = -1
      return heading
    }
  }
  return document.querySelector('main h1')
}

const actionsOf = (box) => [...box?.querySelectorAll(':scope > .button') ?? []]
