// The router: real paths below /ui/, by the history API. Plain links work: a click on a link to the UI
// changes the page without a reload.
import { Store } from './store.js'

const ROOT = '/ui'

const read = () => ({ path: location.pathname, query: new URLSearchParams(location.search), state: history.state ?? {} })

/** The place of the UI: path (escaped), query and state of the history entry. */
export const place = new Store(read())

export const currentLocation = () => place.value

/** The region of the page, '' for that of the agent. */
export const region = () => place.value.query.get('region') ?? ''

/** Goes to a page. href is a path below /ui/, with its query. */
export function navigate(href, { replace = false, state = {} } = {}) {
  history[replace ? 'replaceState' : 'pushState'](state, '', href)
  place.set(read())
}

/**
 * Returns a path of the UI with a query. Keys that are null or '' are left out; the region is kept.
 * @param {string} path escaped, such as '/ui/jobs'
 */
export function href(path, query = {}) {
  const out = new URLSearchParams()
  for (const [key, value] of Object.entries({ region: region(), ...query })) {
    if (value !== null && value !== undefined && value !== '') out.set(key, value)
  }
  const text = out.toString()
  return text ? `${path}?${text}` : path
}

/** Changes keys of the query without a new history entry; null removes a key. */
export function replaceQuery(changes, state = {}) {
  const query = Object.fromEntries(place.value.query)
  navigate(href(place.value.path, { ...query, ...changes }), { replace: true, state })
}

/** Changes keys of the query with a new history entry. */
export function pushQuery(changes, state = {}) {
  const query = Object.fromEntries(place.value.query)
  navigate(href(place.value.path, { ...query, ...changes }), { state })
}

/**
 * Returns the route of a path and its parameters. A segment ':name' of a route matches one segment. A
 * last segment '*name' matches all that follow, with their slashes.
 * @param {{path: string}[]} routes
 */
export function match(routes, path) {
  const all = path.replace(/\/+$/, '').split('/')
  for (const route of routes) {
    const want = route.path.split('/')
    const open = want.at(-1).startsWith('*')
    if (open ? all.length < want.length : all.length !== want.length) continue
    const got = open ? [...all.slice(0, want.length - 1), all.slice(want.length - 1).join('/')] : all
    const params = {}
    const fits = want.every((segment, i) => {
      if (!/^[:*]/.test(segment)) return segment === got[i]
      params[segment.slice(1)] = decode(got[i])
      return got[i] !== ''
    })
    if (fits) return { route, params }
  }
  return null
}

function decode(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // not an escaped text: the page reports that nothing has this name
  }
}

const isTerminal = (path) => path.startsWith(`${ROOT}/exec/`)

/** Starts to follow links and the buttons of the browser. */
export function startRouter() {
  addEventListener('popstate', () => place.set(read()))
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href]')
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    if (link.target || link.hasAttribute('download') || link.origin !== location.origin) return
    if (link.pathname !== ROOT && !link.pathname.startsWith(ROOT + '/')) return
    // Terminals have a policy of their own, which comes with the document.
    if (isTerminal(link.pathname) !== isTerminal(location.pathname)) return
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return
    event.preventDefault()
    navigate(link.pathname + link.search)
  })
}
