// The sections of the site in reading order. Each page is in one section; the build fails otherwise.
// A name that ends with a slash stands for all pages of that directory, sorted by title.
export const sections = [
  { title: 'Start', pages: ['index', 'get-started', 'install', 'three-servers', 'migrate'] },
  { title: 'Run jobs', pages: ['jobs', 'debug-a-job', 'scheduling', 'evaluations', 'logs', 'alloc-exec', 'port-forward', 'canaries', 'job-wait', 'services', 'consul', 'consul-connect', 'services-without-consul', 'consul-move', 'consul-api', 'dns', 'checks',
    'networking', 'secrets', 'variables', 'vault', 'vault-move', 'volumes', 'csi-volumes', 'csi-plugin', 'csi-stuck', 'devices', 'data-migration', 'task-api', 'simulate'] },
  { title: 'Isolate and harden', pages: ['harden-a-node', 'isolation', 'sandbox', 'learn', 'privilege', 'sandbox-programs', 'security-model'] },
  { title: 'Identity and access', pages: ['identity', 'spiffe', 'acl', 'acl-policies', 'acl-enforcement', 'login', 'namespaces', 'quotas', 'audit'] },
  { title: 'Operate', pages: ['agent', 'cluster', 'tls', 'regions', 'node-pools', 'node-drain', 'rebalance', 'metrics', 'snapshots',
    'upgrade-and-crash', 'reliability', 'performance', 'ui'] },
  { title: 'Drivers', pages: ['drivers', 'drivers/', 'write-a-driver'] },
  { title: 'Job file', pages: ['jobspec', 'task-environment', 'jobspec/'] },
  { title: 'Commands', pages: ['cli', 'contexts', 'commands/'] },
  { title: 'Reference', pages: ['configuration', 'http-api', 'api-routes', 'not-yet'] },
]

// navigation returns the sections with the pages that exist: {name, title, label}, in order.
export function navigation(pages) {
  const left = new Map(pages.map((p) => [p.name, p]))
  const take = (name) => {
    const page = left.get(name)
    if (!page) throw new Error(`generator/navigation.js: the page ${name} does not exist or is listed twice`)
    left.delete(name)
    return page
  }
  const listed = sections.map(({ title, pages }) => ({
    title,
    pages: pages.flatMap((name) => (name.endsWith('/') ? directory(left, name).map(take) : take(name))),
  }))
  if (left.size) throw new Error(`generator/navigation.js lacks the pages ${[...left.keys()].join(', ')}`)
  return listed
}

function directory(pages, prefix) {
  return [...pages.keys()].filter((name) => name.startsWith(prefix)).sort()
}

// labels are short texts of pages with long titles.
const labels = { index: 'Overview', 'three-servers': 'Three servers in ten minutes' }

// label returns the short text of a page in the sidebar.
export function label(name, title) {
  if (labels[name]) return labels[name]
  if (name.startsWith('commands/')) return title.split(':')[0]
  if (/^(jobspec|drivers)\//.test(name)) return name.split('/')[1]
  return title
}
