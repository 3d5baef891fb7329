// The frame around every page: brand, navigation, state of the session and of the updates.
import { html, useEffect, useErrorBoundary, useRef, useState } from './lib/dom.js'
import { reachable } from './lib/api.js'
import { live } from './lib/live.js'
import { href, match, place } from './lib/router.js'
import { checkToken, session } from './lib/session.js'
import { useStore } from './lib/store.js'
import { Refused, SignInAgain } from './parts/dialog.js'
import { Icon } from './parts/icon.js'
import { Notice } from './parts/notice.js'
import { Page } from './parts/page.js'
import { Status } from './parts/status.js'
import { groups, routes } from './routes.js'

export function Frame() {
  const { path } = useStore(place)
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [path])
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <button type="button" class="button menu" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}><${Icon} name="menu" />Menu</button>
      <a class="brand" href=${href('/ui/')}>open-nomad</a>
      <${ClusterLabel} />
      <div class="top-state"><${Updates} /><${Caller} /></div>
    </header>
    <div class="body">
      <nav id="nav" class="nav" data-open=${open} aria-label="Pages">
        ${groups.map((g) => html`<div class="nav-group"><h2 id=${`nav-${g.group}`}>${g.group}</h2>
          <ul aria-labelledby=${`nav-${g.group}`}>${g.rows.filter((r) => r.nav).map((r) => html`<li><a href=${href(r.path === '/ui' ? '/ui/' : r.path)} aria-current=${isIn(path, r.path) ? 'page' : null}>${r.nav}</a></li>`)}</ul></div>`)}
        <${OtherUIs} />
      </nav>
      <main id="main" class="main" tabindex="-1"><${Banners} /><${Current} key=${path} path=${path} /></main>
    </div>`
}

/** Moves the focus to the content. The hash of the link is not a page. */
function skip(event) {
  event.preventDefault()
  document.getElementById('main').focus()
}

function isIn(path, route) {
  const at = path.replace(/\/+$/, '')
  return at === route || (route !== '/ui' && at.startsWith(`${route}/`))
}

let firstPage = true

/** The page of the path. */
function Current({ path }) {
  const found = match(routes, path)
  const { query } = useStore(place)
  const [broken] = useErrorBoundary((err) => console.error(err))
  const box = useRef(null)
  useEffect(() => {
    // Readers of screens hear the new page; at the first page the browser sets the focus itself.
    if (!firstPage) {
      scrollTo(0, 0)
      box.current?.querySelector('h1')?.focus()
    }
    firstPage = false
  }, [])
  if (!found) return html`<${Page} title="Page not found"><p>The web UI has no page <code class="name">${path}</code>.</p><p><a href="/ui/">Go to the overview</a></p><//>`
  if (broken) return html`<${Broken} error=${broken} />`
  return html`<div class="page" ref=${box}><${found.route.page} params=${found.params} query=${query} /></div>`
}

function Broken({ error }) {
  const again = html`<button type="button" class="button" onClick=${() => location.reload()}>Reload</button>`
  return html`<${Notice} tone="bad" title="This page has failed." actions=${again}>${String(error.message ?? error)}<//>`
}

function Banners() {
  const { state, error } = useStore(session)
  const answers = useStore(reachable)
  return html`
    ${!answers && html`<${Notice} tone="bad" title="The agent does not answer.">What you see can be out of date. Trying again …<//>`}
    <${Refused} />
    ${state !== 'refused' && error && html`<${Notice} tone="warn">${error}<//>`}`
}

const UPDATES = {
  idle: ['idle', 'off', 'Not live'], connecting: ['info', 'wait', 'Connecting'], live: ['ok', 'run', 'Live'],
  polling: ['warn', 'wait', 'Every 10 s'], lost: ['bad', 'warn', 'No connection'],
}

/** Whether the page is up to date. Pages without updates show nothing. */
function Updates() {
  const state = useStore(live)
  const answers = useStore(reachable)
  useEffect(() => {
    if (answers) return undefined
    const timer = setInterval(checkToken, 3000) // any answer ends this
    return () => clearInterval(timer)
  }, [answers])
  const shown = answers ? state : 'lost'
  if (shown === 'idle') return null
  const [tone, icon, label] = UPDATES[shown]
  return html`<${Status} of=${shown} tone=${tone} icon=${icon} label=${label} />`
}

function Caller() {
  const { state, self } = useStore(session)
  const texts = { unknown: '', off: 'No access control', anonymous: 'Sign in' }
  if (state === 'refused') return html`<${SignInAgain} />`
  return html`<a class="caller" href=${href('/ui/settings/tokens')}>${state === 'signed-in' ? html`<bdi>${self?.Name || self?.AccessorID?.slice(0, 8) || 'Signed in'}</bdi>` : texts[state]}</a>`
}

/** The label of ui { label { … } }, which tells clusters apart. */
function ClusterLabel() {
  const { label, labelBackground, labelColor } = document.documentElement.dataset
  if (!label) return null
  return html`<span class="cluster-label" style=${{ background: labelBackground ?? '', color: labelColor ?? '' }}><bdi>${label}</bdi></span>`
}

function OtherUIs() {
  const { consul, vault } = document.documentElement.dataset
  if (!consul && !vault) return null
  return html`<div class="nav-group"><h2 id="nav-others">Other UIs</h2><ul aria-labelledby="nav-others">
    ${consul && html`<li><a href=${consul} target="_blank" rel="noreferrer">Consul<${Icon} name="link" /></a></li>`}
    ${vault && html`<li><a href=${vault} target="_blank" rel="noreferrer">Vault<${Icon} name="link" /></a></li>`}
  </ul></div>`
}
