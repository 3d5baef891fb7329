import { html } from '../lib/dom.js'
import { isolated, percent, plural } from '../lib/format.js'
import { nodeHref } from '../lib/links.js'
import { Icon } from './icon.js'
import { Name } from './name.js'
import { Status } from './status.js'

// The isolation levels, the highest first. A letter marks each, so that colour is never needed.
const LEVELS = ['strict', 'restricted', 'baseline', 'host', 'none']
const FEW = 48 // up to so many nodes, cells have names

/** The highest isolation level of the healthy drivers of a node: see the attribute driver.<name>.level. */
export function levelOf(node) {
  const levels = Object.entries(node.Drivers ?? {}).filter(([, d]) => d.Healthy).map(([name, d]) => d.Attributes?.[`driver.${name}.level`] ?? 'none')
  return LEVELS.find((level) => levels.includes(level)) ?? 'none'
}

/** One word for the health of a node. */
export function nodeStatus(node) {
  if (node.Status !== 'ready') return node.Status
  if (node.Drain) return 'draining'
  return node.SchedulingEligibility === 'ineligible' ? 'ineligible' : 'ready'
}

const ICONS = { ready: null, draining: 'wait', ineligible: 'off', down: 'bad', disconnected: 'warn', initializing: 'wait' }

/** The nodes as cells: filled by use, coloured by isolation level, marked by health. */
export function NodeMap({ nodes }) {
  const pools = Map.groupBy(nodes, (n) => n.NodePool)
  const shown = LEVELS.filter((level) => nodes.some((n) => levelOf(n) === level))
  return html`
    ${[...pools].sort().map(([pool, members]) => html`<div class="pool">
      ${pools.size > 1 && html`<h3>Pool <${Name} of=${pool} /></h3>`}
      <ul class="cells" data-size=${nodes.length > FEW ? 'small' : 'large'}>${members.map((n) => html`<li key=${n.ID}><${Cell} node=${n} small=${nodes.length > FEW} /></li>`)}</ul>
    </div>`)}
    <div class="legend">
      <span>Isolation:</span>${shown.map((level) => html`<span class="legend-item"><span class="swatch" data-level=${level}>${letter(level)}</span>${level}</span>`)}
      <span>The fill is the larger share of CPU and memory that is allocated.</span>
    </div>`
}

const letter = (level) => level[0].toUpperCase()

function Cell({ node, small }) {
  const level = levelOf(node)
  const status = nodeStatus(node)
  const cpu = percent(node.Use?.CPU ?? 0, node.NodeResources?.Cpu?.CpuShares)
  const memory = percent(node.Use?.MemoryMB ?? 0, node.NodeResources?.Memory?.MemoryMB)
  const label = `${isolated(node.Name)}: ${status}, isolation ${level}, CPU ${cpu} %, memory ${memory} %, ${plural(node.Use?.Allocations ?? 0, 'allocation')}`
  return html`<a class="cell" href=${nodeHref(node.ID)} data-level=${level} data-status=${status} title=${label}>
    <span class="cell-fill" style=${{ height: `${Math.min(100, Math.max(cpu, memory))}%` }}></span>
    <span class="cell-mark" aria-hidden="true">${ICONS[status] ? html`<${Icon} name=${ICONS[status]} />` : letter(level)}</span>
    ${small ? html`<span class="hidden">${label}</span>` : html`<span class="cell-text"><strong><${Name} of=${node.Name} /></strong>
      ${status === 'ready' ? html`<span class="small muted">isolation ${level}</span>` : html`<${Status} of=${status} />`}
      <span class="small muted">${cpu} % CPU · ${memory} % memory</span></span>`}
  </a>`
}
