// The table of pages. A page is a module in pages/ (see ui/README.md).
//
//   path   real path; a segment ":name" is a parameter, a last segment "*name" also one with slashes
//   page   the component of the page
//   nav    label in the navigation, in the group of the row; left out for pages that lists lead to
import Absent from './pages/absent.js'
import Administration from './pages/administration.js'
import Allocation from './pages/allocation.js'
import Evaluation from './pages/evaluation.js'
import Evaluations from './pages/evaluations.js'
import Exec from './pages/exec.js'
import ExecTargets from './pages/exectargets.js'
import HostVolume from './pages/hostvolume.js'
import Identities from './pages/identities.js'
import Job from './pages/job.js'
import Jobs from './pages/jobs.js'
import Keyring from './pages/keyring.js'
import Node from './pages/node.js'
import Nodes from './pages/nodes.js'
import Overview from './pages/overview.js'
import Plugin from './pages/plugin.js'
import Plugins from './pages/plugins.js'
import Policy from './pages/policy.js'
import NodePools from './pages/pools.js'
import Run from './pages/run.js'
import Servers from './pages/servers.js'
import Settings from './pages/settings.js'
import Variable from './pages/variable.js'
import Variables from './pages/variables.js'
import Volume from './pages/volume.js'
import Volumes from './pages/volumes.js'

/** @type {{group: string, rows: {path: string, page: import('preact').ComponentType, nav?: string}[]}[]} */
export const groups = [
  {
    group: 'Cluster',
    rows: [
      { path: '/ui', nav: 'Overview', page: Overview },
      { path: '/ui/clients', nav: 'Nodes', page: Nodes },
      { path: '/ui/clients/:id', page: Node },
      { path: '/ui/clients/:id/:tab', page: Node },
      { path: '/ui/node-pools', nav: 'Node pools', page: NodePools },
      { path: '/ui/servers', nav: 'Servers', page: Servers },
      { path: '/ui/servers/:name', page: Servers },
      { path: '/ui/topology', page: Overview },
      { path: '/ui/optimize', page: Absent },
      { path: '/ui/optimize/*rest', page: Absent },
    ],
  },
  {
    group: 'Storage',
    rows: [
      { path: '/ui/storage/volumes', nav: 'Volumes', page: Volumes },
      { path: '/ui/storage/volumes/csi/:volume', page: Volume },
      { path: '/ui/storage/volumes/dynamic', page: Volumes },
      { path: '/ui/storage/volumes/dynamic/:volume', page: HostVolume },
      { path: '/ui/storage/plugins', nav: 'CSI plugins', page: Plugins },
      { path: '/ui/storage/plugins/:plugin', page: Plugin },
      // Older paths of Nomad's UI.
      { path: '/ui/storage', page: Volumes },
      { path: '/ui/csi', page: Volumes },
      { path: '/ui/csi/volumes', page: Volumes },
      { path: '/ui/csi/volumes/:volume', page: Volume },
      { path: '/ui/csi/plugins', page: Plugins },
      { path: '/ui/csi/plugins/:plugin', page: Plugin },
    ],
  },
  {
    group: 'Workloads',
    rows: [
      { path: '/ui/jobs', nav: 'Jobs', page: Jobs },
      { path: '/ui/jobs/run', page: Run },
      { path: '/ui/jobs/:job', page: Job },
      { path: '/ui/jobs/:job/:tab', page: Job },
      { path: '/ui/allocations/:id', page: Allocation },
      { path: '/ui/allocations/:id/:tab', page: Allocation },
      { path: '/ui/allocations/:id/:task/logs', page: Allocation },
      { path: '/ui/exec/:job', page: ExecTargets },
      { path: '/ui/exec/:job/:group', page: ExecTargets },
      { path: '/ui/exec/:job/:group/:task', page: ExecTargets },
      { path: '/ui/exec/:job/:group/:task/:alloc', page: Exec },
      { path: '/ui/evaluations', nav: 'Evaluations', page: Evaluations },
      { path: '/ui/evaluations/:id', page: Evaluation },
    ],
  },
  {
    group: 'Access',
    rows: [
      { path: '/ui/variables', nav: 'Variables', page: Variables },
      { path: '/ui/variables/new', page: Variable },
      { path: '/ui/variables/path/*path', page: Variables },
      { path: '/ui/variables/var/*path', page: Variable },
      { path: '/ui/identities', nav: 'Identities', page: Identities },
      { path: '/ui/identities/:tab', page: Identities },
      { path: '/ui/keyring', nav: 'Keyring', page: Keyring },
      { path: '/ui/administration', nav: 'Access control', page: Administration },
      { path: '/ui/administration/:tab', page: Administration },
      { path: '/ui/administration/policies/:policy', page: Policy },
    ],
  },
  {
    group: 'Settings',
    rows: [
      { path: '/ui/settings/tokens', nav: 'Sign in and settings', page: Settings },
    ],
  },
]

export const routes = groups.flatMap((g) => g.rows)
