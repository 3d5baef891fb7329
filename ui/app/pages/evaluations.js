// The list of evaluations, the newest first.
import { html } from '../lib/dom.js'
import { at } from '../lib/api.js'
import { shortID } from '../lib/format.js'
import { evalHref, jobHref, nodeHref } from '../lib/links.js'
import { List } from '../parts/list.js'
import { Code, Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Status } from '../parts/status.js'
import { Ago } from '../parts/time.js'
import { TRIGGERS } from './evaluation/words.js'

const equals = (field, values) => values.map((value) => ({ value, label: value[0].toUpperCase() + value.slice(1), filter: `${field} == "${value}"` }))

const FACETS = [
  { key: 'status', label: 'Status', options: equals('Status', ['pending', 'blocked', 'complete', 'failed', 'canceled']) },
  { key: 'type', label: 'Job type', options: equals('Type', ['service', 'batch', 'system', 'sysbatch']) },
  { key: 'trigger', label: 'Cause', options: Object.keys(TRIGGERS).map((value) => ({ value, label: value, filter: `TriggeredBy == "${value}"` })) },
  { key: 'placed', label: 'Placement', options: [
    { value: 'no', label: 'Something not placed', filter: 'FailedTGAllocs is not empty' }, { value: 'yes', label: 'All placed', filter: 'FailedTGAllocs is empty' }] },
]

const COLUMNS = [
  { label: 'ID', head: true, cell: (e) => html`<a href=${evalHref(e.ID)}><${Code} of=${shortID(e.ID)} /></a>` },
  { label: 'Status', kind: 'narrow', cell: (e) => html`<${Status} of=${e.Status} />` },
  { label: 'Of', cell: (e) => html`<${Subject} evaluation=${e} />` },
  { label: 'Namespace', cell: (e) => html`<${Name} of=${e.Namespace} />` },
  { label: 'Cause', cell: (e) => e.TriggeredBy },
  { label: 'Not placed', cell: (e) => html`<${Name} of=${Object.keys(e.FailedTGAllocs ?? {}).sort().join(', ') || '–'} />` },
  { label: 'Priority', kind: 'number', cell: (e) => e.Priority },
  { label: 'Created', kind: 'narrow', cell: (e) => html`<${Ago} at=${e.CreateTime} />` },
]

/** The job of an evaluation, or its node. Those of garbage collections have neither. */
function Subject({ evaluation: e }) {
  if (e.JobID && e.Type !== '_core') return html`<a href=${jobHref(e.JobID, e.Namespace)}><${Name} of=${e.JobID} /></a>`
  if (e.NodeID) return html`<a href=${nodeHref(e.NodeID)}>node <${Code} of=${shortID(e.NodeID)} /></a>`
  return html`<${Name} of=${e.JobID || '–'} />`
}

export default function Evaluations() {
  return html`<${Page} title="Evaluations">
    <${List} path=${at`/v1/evaluations`} what="evaluations" params=${{ reverse: true }} columns=${COLUMNS} rowKey=${(e) => e.ID}
      search=${['ID', 'JobID', 'NodeID']} facets=${FACETS} namespaced topics=${['Evaluation']} />
  <//>`
}
