// The identities: who holds which, and until when.
import { html } from '../lib/dom.js'
import { href } from '../lib/router.js'
import { Page, Tabs } from '../parts/page.js'
import { Audiences } from './identities/audiences.js'
import { Nodes } from './identities/nodes.js'
import { Vault } from './identities/vault.js'
import { Workloads } from './identities/workloads.js'

const TABS = { '': ['Nodes', Nodes], workloads: ['Tasks and services', Workloads], audiences: ['Audiences', Audiences], vault: ['Vault tokens', Vault] }

export default function Identities({ params, query }) {
  const tab = params.tab in TABS ? params.tab : ''
  const link = (name) => href(name ? `/ui/identities/${name}` : '/ui/identities')
  const [, Tab] = TABS[tab]
  const tabs = html`<${Tabs} label="Holders of identities" tabs=${Object.entries(TABS).map(([name, [label]]) => ({ href: link(name), label }))} current=${link(tab)} />`
  return html`<${Page} title="Identities" tabs=${tabs}><${Tab} query=${query} /><//>`
}
