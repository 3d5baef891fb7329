import { html } from '../lib/dom.js'
import { Name } from './name.js'
import { Table } from './table.js'

const CHANGES = [['Place', 'Place'], ['Canary', 'Canaries'], ['InPlaceUpdate', 'Update in place'], ['DestructiveUpdate', 'Replace'],
  ['Migrate', 'Migrate'], ['Stop', 'Stop'], ['Preemptions', 'Preempt'], ['Ignore', 'Keep']]

/**
 * What a plan does with the allocations of each group.
 * @param {{rows: object[]}} props rows are objects of the API of the type DesiredUpdates, with their group
 */
export function Updates({ rows }) {
  const used = CHANGES.filter(([key]) => rows.some((r) => r[key] > 0))
  if (used.length === 0) return html`<p class="muted">No allocation changes.</p>`
  const columns = [{ label: 'Group', head: true, cell: (r) => html`<${Name} of=${r.group} />` },
    ...used.map(([key, label]) => ({ label, kind: 'number', cell: (r) => r[key] ?? 0 }))]
  return html`<div class="compact"><${Table} caption="Changes by group" columns=${columns} rows=${rows} rowKey=${(r) => r.group} /></div>`
}
