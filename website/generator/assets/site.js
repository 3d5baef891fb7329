// The theme, the copy buttons, the choice of the version, the menu of narrow windows and the mark in the
// table of contents.
'use strict'
{
  const root = document.documentElement
  const find = (selector) => document.querySelector(selector)

  // Theme: that of the system until the reader chooses one.
  const button = find('button.theme')
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const current = () => root.dataset.theme || (dark.matches ? 'dark' : 'light')
  const showTheme = () => { button.textContent = current() === 'dark' ? 'Light' : 'Dark'; button.title = `Use the ${button.textContent.toLowerCase()} theme` }
  button.hidden = false
  button.addEventListener('click', () => {
    root.dataset.theme = current() === 'dark' ? 'light' : 'dark'
    try { localStorage.setItem('theme', root.dataset.theme) } catch { /* not kept */ }
    showTheme()
  })
  dark.addEventListener('change', showTheme)
  showTheme()

  // Copy: the commands of a console block, or the whole block.
  for (const block of document.querySelectorAll('.code')) {
    const commands = [...block.querySelectorAll('.command')]
    const copy = document.createElement('button')
    copy.type = 'button'
    copy.className = 'copy'
    copy.textContent = 'Copy'
    copy.addEventListener('click', async () => {
      const text = commands.length ? commands.map((c) => c.textContent).join('\n') + '\n' : block.querySelector('code').textContent
      try {
        await navigator.clipboard.writeText(text)
        copy.textContent = 'Copied'
      } catch {
        copy.textContent = 'Not allowed'
      }
      setTimeout(() => { copy.textContent = 'Copy' }, 2000)
    })
    block.append(copy)
  }

  // Versions: the builds that lie side by side. A page that another version lacks leads to its start.
  const choice = find('#version')
  const versions = window.siteVersions || []
  if (versions.length > 1) {
    choice.replaceChildren(...versions.map(({ version }) => new Option(version, version, false, version === root.dataset.version)))
  }
  choice.addEventListener('change', () => {
    const to = versions.find((v) => v.version === choice.value)
    const page = to.pages.includes(root.dataset.page) ? root.dataset.page : 'index'
    location.href = `${root.dataset.up}../${to.version}/${page}.html`
  })

  // Menu of narrow windows.
  const menu = find('button.menu')
  menu.hidden = false
  menu.addEventListener('click', () => {
    const open = root.classList.toggle('menu-open')
    menu.setAttribute('aria-expanded', String(open))
  })
  const sidebar = find('.sidebar')
  const here = find('.sidebar [aria-current]')
  if (here) sidebar.scrollTop = here.offsetTop - sidebar.clientHeight / 2

  // The section that is read.
  const links = new Map([...document.querySelectorAll('.contents a')].map((a) => [decodeURIComponent(a.hash.slice(1)), a]))
  if (links.size) {
    const mark = () => {
      let now = null
      for (const id of links.keys()) if (document.getElementById(id).getBoundingClientRect().top < 120) now = id
      for (const [id, a] of links) a.toggleAttribute('data-current', id === now)
    }
    addEventListener('scroll', mark, { passive: true })
    mark()
  }
}
