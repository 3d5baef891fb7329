// The pages of one node. The tab is the segment after the node.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { isolated, shortID } from '../lib/format.js'
import { nodeHref } from '../lib/links.js'
import { useQuery } from '../lib/query.js'
import { Name } from '../parts/name.js'
import { nodeStatus } from '../parts/nodemap.js'
import { Failure, Loading, Notice } from '../parts/notice.js'
import { Page, Tabs } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { NodeActions } from './node/actions.js'
import { Allocations } from './node/allocations.js'
import { Attributes } from './node/attributes.js'
import { Metadata } from './node/metadata.js'
import { Overview } from './node/overview.js'

const TABS = { '': ['Overview', Overview], allocations: ['Allocations', Allocations], attributes: ['Attributes', Attributes], metadata: ['Metadata', Metadata] }

export default function Node({ params }) {
  const asked = params.tab ?? ''
  const current = Object.hasOwn(TABS, asked) ? asked : ''
  const [, Tab] = TABS[current]
  const { data: node, error, refresh } = useQuery(at`/v1/node/${params.id}`, { topics: [`Node:${params.id}`], namespace: '*' })
  const links = Object.entries(TABS).map(([tab, [label]]) => ({ href: nodeHref(params.id, tab), label }))
  const tabs = html`<${Tabs} label=${`Parts of the node ${isolated(node?.Name ?? '')}`} tabs=${links} current=${nodeHref(params.id, current)} />`
  return html`<${Page} title=${node?.Name ?? shortID(params.id)} crumbs=${[{ href: '/ui/clients', label: 'Nodes' }]} tabs=${tabs}
    status=${node && html`<${Status} of=${nodeStatus(node)} /><span class="tag">pool <${Name} of=${node.NodePool} /></span>`}
    actions=${node && html`<${NodeActions} node=${node} onDone=${refresh} />`}>
    <${Failure} error=${error} what="this node" />
    ${!node && !error && html`<${Loading} />`}
    ${node && current !== asked && html`<${Notice} tone="warn">A node has no page <${Name} of=${asked} />.<//>`}
    ${node && html`<${Tab} node=${node} refresh=${refresh} />`}
  <//>`
}
