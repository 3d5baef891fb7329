// The search. The index is loaded with the first use.
'use strict'
{
  const most = 12 // results that are shown
  const form = document.querySelector('form.search')
  const input = document.querySelector('#query')
  const list = document.querySelector('#results')
  const status = document.querySelector('#found')
  const up = document.documentElement.dataset.up
  let loading = null
  let active = -1

  const index = () => (loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = `${up}assets/index.js`
    script.onload = () => resolve(MiniSearch.loadJS(window.searchIndex, { fields: ['page', 'heading', 'text'], storeFields: ['page', 'heading', 'href', 'excerpt'] }))
    script.onerror = () => { loading = null; reject(new Error('the search index cannot be loaded')) }
    document.head.append(script)
  }))

  // Pages come before their sections, and explanations before the flags of commands.
  const boostDocument = (id, term, { href }) => (href.includes('#') ? 1 : 2) * (href.startsWith('commands/') ? 0.4 : 1)
  const options = { boost: { page: 1.5, heading: 4 }, boostDocument, prefix: (term) => term.length > 2, fuzzy: (term) => (term.length > 4 ? 0.2 : false), combineWith: 'AND' }

  async function search() {
    const query = input.value.trim()
    if (!query) return show([])
    let found
    try {
      found = (await index()).search(query, options)
    } catch (err) {
      status.textContent = err.message
      return
    }
    if (query === input.value.trim()) show(found.slice(0, most), query, found.length)
  }

  function show(found, query, total) {
    active = -1
    list.replaceChildren(...found.map((f, i) => result(f, i)))
    if (query && !found.length) {
      const none = document.createElement('p')
      none.textContent = `No page has “${query}”.`
      list.append(none)
    }
    status.textContent = query ? `${total} results` : ''
    list.hidden = !query
    input.setAttribute('aria-expanded', String(!list.hidden))
    input.removeAttribute('aria-activedescendant')
  }

  // Texts are inserted as text: nothing of the index is HTML.
  function result(f, i) {
    const a = document.createElement('a')
    Object.assign(a, { id: `result-${i}`, href: up + f.href, tabIndex: -1 })
    a.setAttribute('role', 'option')
    a.setAttribute('aria-selected', 'false')
    for (const [tag, text] of [['b', f.heading], ['i', f.href.includes('#') ? f.page : ''], ['span', f.excerpt]]) {
      if (!text) continue
      const e = document.createElement(tag)
      e.append(...marked(text, f.terms))
      a.append(e)
    }
    return a
  }

  // marked wraps the found words of a text.
  function marked(text, terms) {
    const words = terms.map((t) => t.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')
    return text.split(new RegExp(`(${words})`, 'iu')).map((part, i) => {
      if (i % 2 === 0) return part
      const mark = document.createElement('mark')
      mark.textContent = part
      return mark
    })
  }

  function move(by) {
    const all = [...list.querySelectorAll('[role=option]')]
    if (!all.length) return
    active = (active + by + all.length + (active < 0 && by < 0 ? 1 : 0)) % all.length
    all.forEach((a, i) => a.setAttribute('aria-selected', String(i === active)))
    all[active].scrollIntoView({ block: 'nearest' })
    input.setAttribute('aria-activedescendant', all[active].id)
  }

  const close = () => { list.hidden = true; input.setAttribute('aria-expanded', 'false') }

  form.hidden = false
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const all = list.querySelectorAll('[role=option]')
    if (all.length && !list.hidden) location.href = all[Math.max(active, 0)].href
    close()
  })
  input.addEventListener('input', search)
  input.addEventListener('focus', () => { index().catch(() => {}); if (input.value) search() })
  input.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') move(1)
    else if (event.key === 'ArrowUp') move(-1)
    else if (event.key === 'Escape') { close(); input.blur() }
    else return
    event.preventDefault()
  })
  list.addEventListener('click', close)
  document.addEventListener('click', (event) => { if (!form.contains(event.target)) close() })
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return
    event.preventDefault()
    input.focus()
  })
}
