// The evaluations of a job, the newest first.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { quote } from '../../lib/filter.js'
import { shortID } from '../../lib/format.js'
import { evalHref } from '../../lib/links.js'
import { List } from '../../parts/list.js'
import { Code, Name } from '../../parts/name.js'
import { Status } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'

const COLUMNS = [
  { label: 'ID', head: true, cell: (e) => html`<a href=${evalHref(e.ID)}><${Code} of=${shortID(e.ID)} /></a>` },
  { label: 'Status', kind: 'narrow', cell: (e) => html`<${Status} of=${e.Status} />` },
  { label: 'Triggered by', cell: (e) => e.TriggeredBy },
  { label: 'Priority', kind: 'number', cell: (e) => e.Priority },
  { label: 'Not placed', cell: (e) => html`<${Name} of=${Object.keys(e.FailedTGAllocs ?? {}).join(', ') || '–'} />` },
  { label: 'Created', kind: 'narrow', cell: (e) => html`<${Ago} at=${e.CreateTime} />` },
]

export function Evaluations({ job, namespace }) {
  return html`<${List} path=${at`/v1/evaluations`} what="evaluations" params=${{ namespace, reverse: true }} filter=${`JobID == ${quote(job.ID)}`}
    columns=${COLUMNS} rowKey=${(e) => e.ID} topics=${[`Evaluation:${job.ID}`]} />`
}
