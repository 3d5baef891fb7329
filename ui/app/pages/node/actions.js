// What can be done with a node: drain, eligibility, purge.
import { html } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { navigate } from '../../lib/router.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { Name } from '../../parts/name.js'
import { CancelDialog, DrainDialog } from './drain.js'

export function NodeActions({ node, onDone }) {
  const draining = Boolean(node.DrainStrategy)
  const eligible = node.SchedulingEligibility === 'eligible'
  return html`
    ${draining && html`<${DialogButton} key="cancel" label="Cancel drain" dialog=${(close) => html`<${CancelDialog} node=${node} onClose=${close} onDone=${onDone} />`} />`}
    ${node.Status !== 'down' && html`<${DialogButton} key=${draining ? 'change' : 'drain'} label=${draining ? 'Change drain' : 'Drain'} danger dialog=${(close) => html`<${DrainDialog} node=${node} onClose=${close} onDone=${onDone} />`} />`}
    ${!draining && html`<${DialogButton} key=${eligible ? 'ineligible' : 'eligible'} label=${eligible ? 'Make ineligible' : 'Make eligible'} dialog=${(close) => html`<${Eligibility} node=${node} to=${eligible ? 'ineligible' : 'eligible'} onClose=${close} onDone=${onDone} />`} />`}
    ${node.Status === 'down' && html`<${DialogButton} key="purge" label="Purge" danger dialog=${(close) => html`<${Purge} node=${node} onClose=${close} />`} />`}`
}

function Eligibility({ node, to, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/eligibility`, { NodeID: node.ID, Eligibility: to })
    await onDone()
  }
  return html`<${Dialog} title=${`Make the node ${to}?`} action=${`Make ${to}`} onClose=${onClose} onConfirm=${confirm}>
    ${to === 'eligible' ? html`<p>New allocations can be placed on <strong><${Name} of=${node.Name} /></strong>.</p>`
      : html`<p>No new allocations are placed on <strong><${Name} of=${node.Name} /></strong>. Those that run stay.</p>`}
  <//>`
}

function Purge({ node, onClose }) {
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/purge`)
    navigate('/ui/clients')
  }
  return html`<${Dialog} title="Purge the node?" action="Purge" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The node <strong><${Name} of=${node.Name} /></strong> is removed from the state. If its agent still runs, it registers again.</p>
  <//>`
}
