// The client of the HTTP API. All requests go to the agent that served the page.
import { Store } from './store.js'
import { currentToken, tokenRefused } from './session.js'
import { region } from './router.js'

/** An error of a request. The status is 0 if the agent did not answer. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message)
    this.name = 'ApiError'
    this.status = status
  }
}

/** Whether the agent answered the last request. */
export const reachable = new Store(true)

/**
 * Builds a path and escapes its parameters: at`/v1/job/${id}/versions`. Job IDs can contain slashes.
 */
export function at(parts, ...params) {
  return String.raw({ raw: parts }, ...params.map(encodeURIComponent))
}

/**
 * Makes a request and returns the reply.
 * @param {string} method
 * @param {string} path made by at
 * @param {{params?: object, body?: any, signal?: AbortSignal}} [options] parameters that are null or
 *   undefined are left out
 * @returns {Promise<{data: any, index: number, next: string}>} index is that of the state that the
 *   reply shows; next is the token of the next page, '' at the end
 */
async function request(method, path, { params = {}, body, signal } = {}) {
  const response = await send(method, path, { params, body, signal })
  const text = await response.text()
  return {
    data: text && isJSON(response) ? JSON.parse(text) : text || null,
    index: Number(response.headers.get('X-Nomad-Index') ?? 0),
    next: response.headers.get('X-Nomad-NextToken') ?? '',
  }
}

const isJSON = (response) => (response.headers.get('Content-Type') ?? '').startsWith('application/json')

/** Makes a request and returns the Response, for streams. Throws an ApiError for any status but 2xx. */
export async function send(method, path, { params = {}, body, signal } = {}) {
  const headers = {}
  const token = currentToken()
  if (token) headers['X-Nomad-Token'] = token
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let response
  try {
    response = await fetch(url(path, params), {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store', credentials: 'omit', redirect: 'error',
    })
  } catch (err) {
    if (signal?.aborted) throw err
    if (reachable.value) reachable.set(false)
    throw new ApiError(0, 'The agent does not answer.')
  }
  if (!reachable.value) reachable.set(true)
  if (response.ok) return response
  const text = (await response.text()).trim()
  if (token && (response.status === 401 || response.status === 403)) tokenRefused()
  throw new ApiError(response.status, text || `${response.status} ${response.statusText}`)
}

/** Returns path with a query of params and the region of the page. */
export function url(path, params = {}) {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries({ region: region() || null, ...params })) {
    if (value !== null && value !== undefined && value !== '') query.set(key, String(value))
  }
  const text = query.toString()
  return text ? path + (path.includes('?') ? '&' : '?') + text : path
}

export const api = {
  get: (path, params, signal) => request('GET', path, { params, signal }),
  put: (path, body, params) => request('PUT', path, { params, body }),
  post: (path, body, params) => request('POST', path, { params, body }),
  del: (path, params) => request('DELETE', path, { params }),
}
