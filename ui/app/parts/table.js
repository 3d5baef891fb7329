import { html } from '../lib/dom.js'

/**
 * A table.
 * @typedef {{label: string, cell: (row: any) => any, kind?: 'number'|'wide'|'narrow', head?: boolean}} Column
 *   head marks the column that names the row. kind sets alignment and width.
 * @param {{caption: string, columns: Column[], rows: any[], rowKey: (row: any) => string, busy?: boolean}} props
 *   caption is read out and not shown.
 */
export function Table({ caption, columns, rows, rowKey, busy = false }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${caption}>
    <table aria-busy=${busy}>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((c) => html`<th scope="col" data-kind=${c.kind}>${c.label}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${rowKey(row)}>${columns.map((c) => (c.head
        ? html`<th scope="row" data-kind=${c.kind}>${c.cell(row)}</th>`
        : html`<td data-kind=${c.kind}>${c.cell(row)}</td>`))}</tr>`)}</tbody>
    </table>
  </div>`
}
