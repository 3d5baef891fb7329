// Which nodes can take one more allocation, and why the others cannot: the checks of the scheduler.
import { html, useEffect, useState } from '../lib/dom.js'
import { plural, shortID } from '../lib/format.js'
import { nodeHref } from '../lib/links.js'
import { Check } from './field.js'
import { Code, Name } from './name.js'
import { Failure, Loading } from './notice.js'
import { Status } from './status.js'
import { Table } from './table.js'

/** Nodes of each group on one page. */
export const EXPLAIN_PAGE = 20

/**
 * Loads an explanation page by page, and shows it.
 * @param {{load: (token: string) => Promise<{data: object, next: string}>}} props
 *   load makes the request (/v1/job/:id/explain). Another function is another question: the caller
 *   keeps it by useCallback.
 */
export function Explain({ load }) {
  const [before, setBefore] = useState(['']) // tokens of the pages up to this one
  const [result, setResult] = useState({})
  const [all, setAll] = useState(false)
  const token = before.at(-1)
  useEffect(() => {
    let current = true
    load(token).then((r) => current && setResult({ ...r, token }), (error) => current && setResult({ error, token }))
    return () => { current = false }
  }, [load, token])
  const loading = result.token !== token // the page before it is still shown
  if (result.error?.status === 404) return html`<p class="muted">The job is not registered, so its nodes cannot be checked.</p>`
  return html`
    <${Failure} error=${result.error} what="the checks of the nodes" />
    ${!result.data && !result.error && html`<${Loading} />`}
    ${(result.data?.Groups ?? []).map((g) => html`<${Group} key=${g.Name} group=${g} all=${all} />`)}
    ${result.data && html`<${Check} label="Show the checks that passed, too" checked=${all} onChange=${setAll} />`}
    ${(result.next || before.length > 1) && html`<nav class="pager" aria-label="Pages of nodes">
      <span aria-live="polite">Page ${before.length}</span>
      ${before.length > 1 && html`<button type="button" class="button" disabled=${loading} onClick=${() => setBefore(before.slice(0, -1))}>Previous nodes</button>`}
      ${result.next && html`<button type="button" class="button" disabled=${loading} onClick=${() => setBefore([...before, result.next])}>More nodes</button>`}
    </nav>`}`
}

function Group({ group, all }) {
  const columns = [
    { label: 'Node', head: true, cell: (n) => html`<a href=${nodeHref(n.ID)}>${n.Name ? html`<${Name} of=${n.Name} />` : html`<${Code} of=${shortID(n.ID)} />`}</a>
      <div>${n.Fits ? html`<${Status} of="ready" label="Fits" /> <span class="muted small">score ${n.Score.toFixed(3)}</span>` : html`<${Status} of="failed" label="Does not fit" />`}</div>` },
    { label: 'Checks', cell: (n) => html`<${Checks} checks=${n.Checks ?? []} all=${all} fits=${n.Fits} />` },
  ]
  const title = html`Group <${Name} of=${group.Name} />: ${group.Fits} of ${plural(group.NodeCount, 'node')} can take one more allocation`
  return html`<div class="explained compact"><h3>${title}</h3>
    ${group.Nodes?.length ? html`<${Table} caption=${`Nodes checked for group ${group.Name}`} columns=${columns} rows=${group.Nodes} rowKey=${(n) => n.ID} />`
      : group.Failed?.length ? html`<${Counts} group=${group} />` : html`<p class="muted">No node is on this page.</p>`}</div>`
}

/** How many nodes fail at each check. Callers that cannot read nodes get no more. */
function Counts({ group }) {
  const columns = [
    { label: 'First failed check', head: true, cell: (c) => c.Check },
    { label: 'Nodes', cell: (c) => c.Nodes },
    { label: 'Required', cell: (c) => html`<${Name} of=${c.Need} />` },
  ]
  return html`<${Table} caption=${`Failed checks of group ${group.Name}`} columns=${columns} rows=${group.Failed} rowKey=${(c) => `${c.Check} ${c.Need}`} />`
}

/** The checks of a node that failed, or all. Need comes from the job, Found from the node. */
function Checks({ checks, all, fits }) {
  const shown = checks.filter((c) => all || !c.Passed)
  if (shown.length === 0) return html`<span class="muted">${fits ? 'All passed.' : 'No check failed, but the node does not fit.'}</span>`
  return html`<ul class="reasons">${shown.map((c) => html`<li>
    ${all && html`<${Status} of=${c.Passed ? 'ready' : 'failed'} label=${c.Passed ? 'Passed' : 'Failed'} /> `}<strong>${c.Check}</strong>: <${Name} of=${c.Need} />
    ${c.Found && c.Found !== c.Need && html`<span class="muted"> → <${Name} of=${c.Found} /></span>`}</li>`)}</ul>`
}
