// The use of a node: what the scheduler has allocated, and what the node measures.
import { html, useEffect } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { bytes, count, duration, mebibytes, percent } from '../../lib/format.js'
import { useQuery } from '../../lib/query.js'
import { Section } from '../../parts/page.js'
import { Table } from '../../parts/table.js'

const PERIOD = 10_000 // milliseconds between two measurements

/** use is the object of the API of the type NodeUse, undefined until it is loaded. */
export function Use({ node, use }) {
  const stats = useQuery(node.Status === 'ready' ? at`/v1/client/stats` : null, { params: { node_id: node.ID } })
  useEffect(() => {
    const timer = setInterval(() => document.hidden || stats.refresh(), PERIOD)
    return () => clearInterval(timer)
  }, [stats.refresh])
  const now = stats.data
  const free = (path) => (node.NodeResources?.[path[0]]?.[path[1]] ?? 0) - (node.ReservedResources?.[path[0]]?.[path[1]] ?? 0)
  const disk = now?.AllocDirStats
  const rows = [
    { name: 'CPU', used: use?.CPU, all: free(['Cpu', 'CpuShares']), show: (v) => `${count(v)} MHz`, now: now?.CPU?.length > 0 && `${Math.round(now.CPU.reduce((sum, c) => sum + c.TotalPercent, 0) / now.CPU.length)} % of ${now.CPU.length} CPUs` },
    { name: 'Memory', used: use?.MemoryMB, all: free(['Memory', 'MemoryMB']), show: mebibytes, now: now?.Memory && `${bytes(now.Memory.Used)} of ${bytes(now.Memory.Total)} used` },
    { name: 'Disk', used: use?.DiskMB, all: free(['Disk', 'DiskMB']), show: mebibytes, now: disk && `${bytes(disk.Used)} of ${bytes(disk.Size)} used` },
  ]
  const actions = now && html`<span class="muted small">up for ${duration(now.Uptime)}</span>`
  return html`<${Section} title="Use" actions=${actions}>
    <div class="compact use"><${Table} caption="Use of the node" columns=${COLUMNS} rows=${rows} rowKey=${(r) => r.name} /></div>
    ${stats.error && html`<p class="muted">The node does not report what it measures: ${stats.error.message}</p>`}
  <//>`
}

const COLUMNS = [
  { label: 'Resource', head: true, cell: (r) => r.name },
  { label: 'Allocated', cell: (r) => (r.used === undefined ? '–' : html`${percent(r.used, r.all)} %<span class="meter" aria-hidden="true"><span style=${{ width: `${Math.min(100, percent(r.used, r.all))}%` }}></span></span>`) },
  { label: 'For tasks', cell: (r) => (r.used === undefined ? r.show(r.all) : `${r.show(r.used)} of ${r.show(r.all)}`) },
  { label: 'Measured now', cell: (r) => r.now || '–' },
]
