// The session: the ACL token of this window and what the agent reported about it.
//
// The token is kept in sessionStorage. It survives a reload, ends with the window, is not shared with
// other windows, and is never sent by the browser on its own, as a cookie would be. It is never part
// of a URL: URLs are kept in histories and logs.
import { Store } from './store.js'
import { api, ApiError } from './api.js'

const KEY = 'nomad.token'

/**
 * state is one of
 *   unknown     the token was not checked yet
 *   off         the cluster has no access control
 *   anonymous   no token
 *   signed-in   self is the token of the caller
 *   refused     the token has expired, was deleted, or never existed
 * @type {Store<{state: string, self: object|null, error: string}>}
 */
export const session = new Store({ state: 'unknown', self: null, error: '' })

export const currentToken = () => sessionStorage.getItem(KEY) ?? ''

/** Uses the token from now on, and checks it. */
export async function signIn(token) {
  sessionStorage.setItem(KEY, token.trim())
  await checkToken()
}

/** Removes the token from this window. It stays valid until it expires. */
export async function signOut() {
  sessionStorage.removeItem(KEY)
  await checkToken()
}

/** Asks the agent about the token of this window. */
export async function checkToken() {
  const token = currentToken()
  try {
    const { data } = await api.get('/v1/acl/token/self')
    if (token !== currentToken()) return // signed in again in the meantime
    if (data?.AccessorID === 'acls-disabled') session.set({ state: 'off', self: null, error: '' })
    else session.set({ state: token ? 'signed-in' : 'anonymous', self: token ? data : null, error: '' })
  } catch (err) {
    if (token !== currentToken()) return
    if (!(err instanceof ApiError)) throw err
    if (err.status === 401 || err.status === 403 || err.status === 404) {
      session.set({ state: token ? 'refused' : 'anonymous', self: null, error: token ? err.message : '' })
    } // else the agent could not check it: the state stays as it is
  }
}

let checked = 0

/** Called when a request with a token was refused: the token is invalid, or lacks a right. */
export function tokenRefused() {
  if (session.value.state === 'refused' || Date.now() - checked < 5000) return
  checked = Date.now() // checkToken can be refused as well
  checkToken()
}

/**
 * Signs in with the one-time token of a URL, made by nomad ui -authenticate. If it is not accepted, the window
 * keeps the token that it has.
 */
export async function exchangeOneTimeToken(secret) {
  try {
    const { data } = await api.put('/v1/acl/token/onetime/exchange', { OneTimeSecretID: secret })
    await signIn(data.Token.SecretID)
  } catch (err) {
    await checkToken()
    session.set({ ...session.value, error: `The one-time token was not accepted: ${err.message}` })
  }
}
