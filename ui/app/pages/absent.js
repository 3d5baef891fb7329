// Pages of Nomad's UI that this project does not have, by name.
import { html } from '../lib/dom.js'
import { place } from '../lib/router.js'
import { Page } from '../parts/page.js'

const PAGES = {
  optimize: ['Recommendations', html`<p>Dynamic application sizing is not part of this project, so there are no recommendations.</p>`],
}

export default function Absent() {
  const [title, text] = PAGES[place.value.path.split('/')[2]]
  return html`<${Page} title=${title}>${text}<//>`
}
