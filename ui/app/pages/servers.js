// The servers: gossip members, Raft peers, the leader and their health.
import { html, useEffect } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { count, plural } from '../lib/format.js'
import { useQuery } from '../lib/query.js'
import { Code, Name } from '../parts/name.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Facts, Page, Section } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { healthOf, mergeServers } from './servers/merge.js'

const PERIOD = 5000 // milliseconds: there are no events of servers

/** Reads a path every five seconds. */
function usePolled(path) {
  const query = useQuery(path)
  useEffect(() => {
    const timer = setInterval(() => document.hidden || query.refresh(), PERIOD)
    return () => clearInterval(timer)
  }, [query.refresh])
  return query
}

export default function Servers({ params }) {
  const members = usePolled(at`/v1/agent/members`)
  const raft = usePolled(at`/v1/operator/raft/configuration`)
  const { health, error: healthError } = healthOf(usePolled(at`/v1/operator/autopilot/health`))
  const config = useQuery(at`/v1/operator/autopilot/configuration`)
  const all = mergeServers(members.data?.Members, raft.data?.Servers, health?.Servers)
  const servers = params.name ? all.filter((s) => s.name === params.name) : all
  const unread = raft.error ?? healthError
  return html`<${Page} title=${params.name ?? 'Servers'} crumbs=${params.name ? [{ href: '/ui/servers', label: 'Servers' }] : []} status=${health && html`<${Status} of=${health.Healthy ? 'healthy' : 'unhealthy'} />`}>
    <${Failure} error=${members.error} what="the gossip members" />
    <${Failure} error=${unread} what="the Raft peers and their health" />
    ${!members.data && !members.error && html`<${Loading} />`}
    ${params.name && members.data && servers.length === 0 && html`<${Notice} tone="warn">No server has the name <${Name} of=${params.name} />. <a href="/ui/servers">All servers</a><//>`}
    ${(health?.Warnings ?? []).map((text) => html`<${Notice} tone="warn"><bdi>${text}</bdi><//>`)}
    ${health && html`<${Summary} health=${health} servers=${all} peers=${raft.data?.Servers ?? []} />`}
    ${servers.length > 0 && html`<${Section} title=${params.name ? 'This server' : 'Servers of this region'}><${Table} caption="Servers" columns=${COLUMNS} rows=${servers.filter((s) => s.peer || s.region === members.data?.ServerRegion)} rowKey=${(s) => s.key} /><//>`}
    <${Others} servers=${servers.filter((s) => !s.peer && s.region !== members.data?.ServerRegion)} />
    ${config.data && html`<${Autopilot} config=${config.data} />`}
  <//>`
}

function Summary({ health, servers, peers }) {
  const leader = peers.find((p) => p.Leader) ?? servers.find((s) => s.leader)
  const voters = peers.filter((p) => p.Voter)
  return html`<${Facts} rows=${[
    ['Leader', leader ? html`<${Name} of=${leader.Node ?? leader.name} />` : 'none'],
    ['Servers that may fail', `${count(health.FailureTolerance)} without a loss of the quorum`],
    ['Voters', voters.length > 0 ? plural(voters.length, 'voter') : null],
    ['Features that this build lacks', (health.Unserved ?? []).join(', ')],
  ]} />`
}

const COLUMNS = [
  { label: 'Server', head: true, cell: (s) => html`<${Name} of=${s.name} />${s.id && html`<div class="muted small"><${Code} of=${s.id.slice(0, 8)} /></div>`}` },
  { label: 'Gossip', kind: 'narrow', cell: (s) => (s.status ? html`<${Status} of=${s.status} />` : html`<${Status} of="absent" tone="bad" icon="warn" label="Not a member" />`) },
  { label: 'Raft', kind: 'narrow', cell: (s) => (s.leader ? html`<${Status} of="leader" tone="ok" icon="ok" label="Leader" />` : s.peer ? (s.voter ? 'voter' : 'non-voter') : 'not a peer') },
  { label: 'Health', kind: 'narrow', cell: (s) => (s.healthy === undefined ? '–' : html`<${Status} of=${s.healthy ? 'healthy' : 'unhealthy'} />`) },
  { label: 'Stable since', kind: 'narrow', cell: (s) => html`<${Ago} at=${s.stableSince} />` },
  { label: 'Last contact', kind: 'number', cell: (s) => (s.leader ? '–' : s.lastContact ?? '–') },
  { label: 'Term', kind: 'number', cell: (s) => (s.lastTerm === undefined ? '–' : count(s.lastTerm)) },
  { label: 'Index', kind: 'number', cell: (s) => (s.lastIndex === undefined ? '–' : count(s.lastIndex)) },
  { label: 'Version', cell: (s) => html`<${Name} of=${s.version || '–'} />` },
  { label: 'Address', cell: (s) => html`<${Code} of=${s.address} />` },
]

const OTHERS = [COLUMNS[0], COLUMNS[1], { label: 'Region', cell: (s) => html`<${Name} of=${s.region} />` }, COLUMNS[8], COLUMNS[9]]

/** The servers of the other regions: only their gossip is known here. */
function Others({ servers }) {
  if (servers.length === 0) return null
  return html`<${Section} title="Servers of other regions"><${Table} caption="Servers of other regions" columns=${OTHERS} rows=${servers} rowKey=${(s) => s.key} /><//>`
}

function Autopilot({ config: c }) {
  return html`<${Section} title="Autopilot"><${Facts} rows=${[
    ['Removes dead servers', c.CleanupDeadServers ? 'yes' : 'no'], ['Smallest quorum', c.MinQuorum > 0 ? String(c.MinQuorum) : 'not set'],
    ['Last contact at most', c.LastContactThreshold], ['Entries behind at most', count(c.MaxTrailingLogs)], ['Stable before it votes', c.ServerStabilizationTime],
  ]} /><//>`
}
