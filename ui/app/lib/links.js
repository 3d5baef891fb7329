// The paths of the pages. They are those of Nomad's UI, so that existing links keep working.
import { href } from './router.js'

const seg = encodeURIComponent

/** @param {string} id @param {string} namespace @param {string} [tab] such as 'versions' */
export const jobHref = (id, namespace = 'default', tab = '') =>
  href(`/ui/jobs/${seg(`${id}@${namespace}`)}${tab ? `/${tab}` : ''}`)

export const allocHref = (id, tab = '') => href(`/ui/allocations/${seg(id)}${tab ? `/${tab}` : ''}`)

/** The terminal of a task. Its document has a policy of its own, so the browser loads it. */
export const execHref = (job, namespace, group, task, alloc) =>
  href(`/ui/exec/${[`${job}@${namespace}`, group, task, alloc].map(seg).join('/')}`)

/** The directory, or the part of the file, at a path of an allocation. */
export const fileHref = (alloc, path, offset = 0) => href(`/ui/allocations/${seg(alloc)}/fs`, { path: path === '/' ? '' : path, offset: offset > 0 ? offset : '' })

export const nodeHref = (id, tab = '') => href(`/ui/clients/${seg(id)}${tab ? `/${tab}` : ''}`)
/** The nodes of a pool. All nodes are members of the pool "all". */
export const poolHref = (name) => href('/ui/clients', { pool: name === 'all' ? null : name })
export const volumeHref = (id, namespace = 'default') => href(`/ui/storage/volumes/csi/${seg(`${id}@${namespace}`)}`)
export const hostVolumeHref = (id, namespace = 'default') => href(`/ui/storage/volumes/dynamic/${seg(`${id}@${namespace}`)}`)
export const pluginHref = (id) => href(`/ui/storage/plugins/${seg(id)}`)
export const evalHref = (id) => href(`/ui/evaluations/${seg(id)}`)

const escaped = (path) => path.split('/').map(seg).join('/')

/** @param {string} path @param {string} namespace */
export const variableHref = (path, namespace) => href(`/ui/variables/var/${escaped(path)}@${seg(namespace)}`)
/** @param {string} path of a folder of variables, without a slash at its end */
export const folderHref = (path, namespace) => href(path ? `/ui/variables/path/${escaped(path)}` : '/ui/variables', { namespace })
export const policyHref = (name) => href(`/ui/administration/policies/${seg(name)}`)

/**
 * Splits the parameter of the page of a job or a volume. IDs can contain "@", namespaces cannot.
 * @returns {{id: string, namespace: string}}
 */
export function parseJob(param) {
  const i = param.lastIndexOf('@')
  return i < 0 ? { id: param, namespace: 'default' } : { id: param.slice(0, i), namespace: param.slice(i + 1) || 'default' }
}

/** Returns the URL of a link from a job if it is a web address, or null. A job must not run script here. */
export function webAddress(text) {
  try {
    const url = new URL(text)
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null
  } catch {
    return null
  }
}
