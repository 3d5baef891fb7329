import { html, useEffect } from '../lib/dom.js'
import { isolated } from '../lib/format.js'
import { Name } from './name.js'

/**
 * The head of a page, and its content.
 * @param {{title: string, crumbs?: {href: string, label: string}[], status?: any, actions?: any, tabs?: any, children: any}} props
 *   title is also that of the window. status and actions are markup beside the title.
 */
export function Page({ title, crumbs = [], status, actions, tabs, children }) {
  useEffect(() => { document.title = `${isolated(title)} · open-nomad` }, [title])
  return html`
    <header class="page-head">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb"><ol>${crumbs.map((c) => html`<li><a href=${c.href}><${Name} of=${c.label} /></a></li>`)}</ol></nav>`}
      <div class="page-title"><h1 tabindex="-1"><${Name} of=${title} /></h1>${status}<div class="actions">${actions}</div></div>
      ${tabs}
    </header>
    ${children}`
}

/** Links between the parts of a page. tabs are {href, label}. */
export function Tabs({ tabs, current, label }) {
  return html`<nav class="tabs" aria-label=${label}><ul>${tabs.map((t) => html`<li><a href=${t.href} aria-current=${t.href === current ? 'page' : null}>${t.label}</a></li>`)}</ul></nav>`
}

/** A part of a page with a heading. */
export function Section({ title, actions, children }) {
  return html`<section class="section"><div class="section-head"><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</div>${children}</section>`
}

/** Facts as pairs of a term and a value. rows are [term, value]; rows with a null value are left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== undefined && value !== '').map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`
}
