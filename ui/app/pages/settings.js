// Sign in and settings: the token of this window, and the theme.
import { html, useEffect, useState } from '../lib/dom.js'
import { api, at } from '../lib/api.js'
import { webAddress } from '../lib/links.js'
import { currentLocation, place, replaceQuery } from '../lib/router.js'
import { currentToken, session, signIn, signOut } from '../lib/session.js'
import { useStore } from '../lib/store.js'
import { useQuery } from '../lib/query.js'
import { Field } from '../parts/field.js'
import { Code, Name } from '../parts/name.js'
import { Notice } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Ago } from '../parts/time.js'

const CALLBACK = '/ui/settings/tokens'
const PENDING = 'nomad.oidc' // the login that was begun in this window

export default function Settings() {
  const { state } = useStore(session)
  return html`<${Page} title="Sign in and settings">
    <${OIDCReturn} />
    ${state === 'off' && html`<${Notice} title="This cluster has no access control.">Everyone who reaches the agent may do everything. No token is needed.<//>`}
    ${state === 'signed-in' && html`<${Current} />`}
    ${state !== 'signed-in' && state !== 'off' && html`<${SignIn} /><${Methods} />`}
    <${Theme} />
  <//>`
}

function SignIn() {
  const [token, setToken] = useState('')
  const [busy, setBusy] = useState(false)
  async function submit(event) {
    event.preventDefault()
    setBusy(true)
    await signIn(token)
    setBusy(false)
  }
  return html`<${Section} title="Sign in with a token">
    <form class="sign-in" onSubmit=${submit}>
      <${Field} label="Secret ID of an ACL token" type="password" value=${token} onInput=${setToken} maxlength="8192" />
      <button type="submit" class="button primary" disabled=${busy || !token.trim()}>Sign in</button>
    </form>
    <p class="hint">The token is kept in this window only (sessionStorage). It survives a reload and ends with the window. It is not a cookie, so no other site can use it,
      and it is never part of a URL. <code>nomad ui -authenticate</code> signs in with the token of your shell.</p>
  <//>`
}

/** The auth methods by which a browser can sign in. */
function Methods() {
  const { data } = useQuery(at`/v1/acl/auth-methods`)
  const [error, setError] = useState(null)
  const methods = (data ?? []).filter((m) => m.Type === 'OIDC')
  if (methods.length === 0) return null
  return html`<${Section} title="Sign in with an identity provider">
    <div class="actions">${methods.map((m) => html`<button type="button" class="button" onClick=${() => beginOIDC(m.Name).catch(setError)}><${Name} of=${m.Name} /></button>`)}</div>
    ${error && html`<${Notice} tone="bad" title="The sign-in could not begin.">${error.message}<//>`}
  <//>`
}

/** Goes to the identity provider. The nonce proves on return that this window began the login. */
async function beginOIDC(method) {
  const nonce = [...crypto.getRandomValues(new Uint8Array(32))].map((b) => b.toString(16).padStart(2, '0')).join('')
  const redirect = location.origin + CALLBACK
  const { data } = await api.put('/v1/acl/oidc/auth-url', { AuthMethodName: method, RedirectURI: redirect, ClientNonce: nonce })
  sessionStorage.setItem(PENDING, JSON.stringify({ method, nonce, redirect }))
  const address = webAddress(data.AuthURL)
  if (!address) throw new Error('The address of the identity provider is not a web address. Its auth method may be configured wrongly.')
  location.assign(address)
}

/** Ends a login when the identity provider returns to this page with a code. */
function OIDCReturn() {
  const [error, setError] = useState(null)
  useEffect(() => {
    const { query } = currentLocation()
    const [code, state, refused] = ['code', 'state', 'error'].map((key) => query.get(key))
    if (!code && !refused) return
    const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? 'null')
    sessionStorage.removeItem(PENDING)
    replaceQuery({ code: null, state: null, error: null, error_description: null, scope: null, session_state: null })
    if (refused) setError(new Error(query.get('error_description') || refused))
    else if (!pending) setError(new Error('The sign-in was not begun in this window.'))
    else finishOIDC(pending, code, state).catch(setError)
  }, [])
  return error && html`<${Notice} tone="bad" title="The sign-in failed.">${error.message}<//>`
}

async function finishOIDC({ method, nonce, redirect }, code, state) {
  const { data } = await api.put('/v1/acl/oidc/complete-auth', { AuthMethodName: method, ClientNonce: nonce, RedirectURI: redirect, State: state, Code: code })
  await signIn(data.SecretID)
}

function Current() {
  const { self } = useStore(session)
  const list = (names) => (names?.length ? names.map((n) => html`<span class="tag"><${Name} of=${n} /></span> `) : null)
  return html`<${Section} title="Your token" actions=${html`<button type="button" class="button" onClick=${signOut}>Sign out</button>`}>
    ${self
      ? html`<${Facts} rows=${[
        ['Name', self.Name && html`<${Name} of=${self.Name} />`], ['Type', self.Type], ['Accessor ID', html`<${Code} of=${self.AccessorID} />`],
        ['Policies', list(self.Policies)], ['Roles', list((self.Roles ?? []).map((r) => r.Name))], ['Expires', self.ExpirationTime ? html`<${Ago} at=${self.ExpirationTime} />` : 'never'],
      ]} />`
      : html`<p>${currentToken() ? 'Signed in.' : ''}</p>`}
  <//>`
}

const THEMES = [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]

function Theme() {
  useStore(place)
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? '')
  function choose(value) {
    setTheme(value)
    if (value) {
      localStorage.setItem('nomad.theme', value)
      document.documentElement.dataset.theme = value
    } else {
      localStorage.removeItem('nomad.theme')
      delete document.documentElement.dataset.theme
    }
  }
  return html`<${Section} title="Appearance">
    <fieldset class="choices"><legend class="hidden">Theme</legend>
      ${THEMES.map(([value, label]) => html`<label><input type="radio" name="theme" value=${value} checked=${theme === value} onChange=${() => choose(value)} />${label}</label>`)}
    </fieldset>
  <//>`
}
