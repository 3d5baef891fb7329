// The table of pages. A page is a module in pages/, loaded when it is first shown (see ui/README.md).
//
//   path   real path; a segment ":name" is a parameter, a last segment "*name" also one with slashes
//   load   imports the module
//   nav    label in the navigation, in the group of the row; left out for pages that lists lead to

/** @type {{group: string, rows: {path: string, load: () => Promise<object>, nav?: string}[]}[]} */
export const groups = [
  {
    group: 'Cluster',
    rows: [
      { path: '/ui', nav: 'Overview', load: () => import('./pages/overview.js') },
      { path: '/ui/clients', nav: 'Nodes', load: () => import('./pages/nodes.js') },
      { path: '/ui/clients/:id', load: () => import('./pages/node.js') },
      { path: '/ui/clients/:id/:tab', load: () => import('./pages/node.js') },
      { path: '/ui/node-pools', nav: 'Node pools', load: () => import('./pages/pools.js') },
      { path: '/ui/servers', nav: 'Servers', load: () => import('./pages/servers.js') },
    ],
  },
  {
    group: 'Workloads',
    rows: [
      { path: '/ui/jobs', nav: 'Jobs', load: () => import('./pages/jobs.js') },
      { path: '/ui/jobs/run', load: () => import('./pages/run.js') },
      { path: '/ui/jobs/:job', load: () => import('./pages/job.js') },
      { path: '/ui/jobs/:job/:tab', load: () => import('./pages/job.js') },
      { path: '/ui/allocations/:id', load: () => import('./pages/allocation.js') },
      { path: '/ui/allocations/:id/:tab', load: () => import('./pages/allocation.js') },
      { path: '/ui/allocations/:id/:task/logs', load: () => import('./pages/allocation.js') },
      { path: '/ui/exec/:job/:group/:task/:alloc', load: () => import('./pages/exec.js') },
      { path: '/ui/evaluations', nav: 'Evaluations', load: () => import('./pages/evaluations.js') },
      { path: '/ui/evaluations/:id', load: () => import('./pages/evaluation.js') },
    ],
  },
  {
    group: 'Access',
    rows: [
      { path: '/ui/variables', nav: 'Variables', load: () => import('./pages/variables.js') },
      { path: '/ui/variables/new', load: () => import('./pages/variable.js') },
      { path: '/ui/variables/path/*path', load: () => import('./pages/variables.js') },
      { path: '/ui/variables/var/*path', load: () => import('./pages/variable.js') },
      { path: '/ui/identities', nav: 'Identities', load: () => import('./pages/identities.js') },
      { path: '/ui/identities/:tab', load: () => import('./pages/identities.js') },
      { path: '/ui/keyring', nav: 'Keyring', load: () => import('./pages/keyring.js') },
      { path: '/ui/administration', nav: 'Access control', load: () => import('./pages/administration.js') },
      { path: '/ui/administration/:tab', load: () => import('./pages/administration.js') },
      { path: '/ui/administration/policies/:policy', load: () => import('./pages/policy.js') },
    ],
  },
  {
    group: 'Settings',
    rows: [
      { path: '/ui/settings/tokens', nav: 'Sign in and settings', load: () => import('./pages/settings.js') },
    ],
  },
]

export const routes = groups.flatMap((g) => g.rows)
