// One row per server, from the three lists of the API.

/**
 * Joins the gossip members, the Raft peers and the health of servers. A server can be in any of them.
 * @param {object[]} [members] of /v1/agent/members @param {object[]} [peers] of the Raft configuration
 * @param {object[]} [health] of Autopilot
 */
export function mergeServers(members = [], peers = [], health = []) {
  const rows = new Map()
  const row = (key) => rows.get(key) ?? rows.set(key, { key, peer: false }).get(key)
  for (const m of members ?? []) {
    const port = m.Tags?.port ?? m.Port
    Object.assign(row(m.Tags?.id || m.Name), { id: m.Tags?.id, name: m.Name, status: m.Status, region: m.Tags?.region, version: versionOf(m.Tags ?? {}), address: `${m.Addr.includes(':') ? `[${m.Addr}]` : m.Addr}:${port}` })
  }
  for (const p of peers ?? []) {
    const r = row(p.ID)
    Object.assign(r, { id: p.ID, name: r.name ?? (p.Node || p.ID), address: p.Address, peer: true, voter: p.Voter, leader: p.Leader })
  }
  for (const h of health ?? []) {
    const r = row(h.ID)
    Object.assign(r, { id: h.ID, name: r.name ?? h.Name, address: r.address ?? h.Address, version: r.version ?? h.Version, healthy: h.Healthy, stableSince: h.StableSince,
      lastContact: h.LastContact, lastTerm: h.LastTerm, lastIndex: h.LastIndex, leader: r.leader ?? h.Leader })
  }
  return [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The version of a member. Servers of this project say so in their tags. */
const versionOf = (tags) => [tags.build, tags.project].filter(Boolean).join(' ')

/** The health in the answer of Autopilot. Its status is 429 if any server is unhealthy. */
export function healthOf({ data, error }) {
  if (error?.status !== 429) return { health: data, error }
  try {
    return { health: JSON.parse(error.message), error: null }
  } catch {
    return { health: data, error } // too many requests
  }
}
