// Access control: tokens, policies, roles, auth methods and binding rules.
import { html } from '../lib/dom.js'
import { href } from '../lib/router.js'
import { session } from '../lib/session.js'
import { useStore } from '../lib/store.js'
import { Notice } from '../parts/notice.js'
import { Page, Tabs } from '../parts/page.js'
import { Methods } from './administration/methods.js'
import { Policies } from './administration/policies.js'
import { Roles } from './administration/roles.js'
import { Rules } from './administration/rules.js'
import { Tokens } from './administration/tokens.js'

const TABS = { tokens: ['Tokens', Tokens], policies: ['Policies', Policies], roles: ['Roles', Roles], 'auth-methods': ['Auth methods', Methods], 'binding-rules': ['Binding rules', Rules] }

export default function Administration({ params }) {
  const { state } = useStore(session)
  const tab = params.tab in TABS ? params.tab : 'tokens'
  const link = (name) => href(`/ui/administration/${name}`)
  const [, Tab] = TABS[tab]
  const tabs = html`<${Tabs} label="Parts of access control" tabs=${Object.entries(TABS).map(([name, [label]]) => ({ href: link(name), label }))} current=${link(tab)} />`
  return html`<${Page} title="Access control" tabs=${tabs}>
    ${state === 'off'
      ? html`<${Notice} tone="warn" title="This cluster has no access control.">Everyone who reaches the agent may do everything. <code>acl { enabled = true }</code> in the configuration of the servers turns it on.<//>`
      : html`<${Tab} />`}
  <//>`
}
