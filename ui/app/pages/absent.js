// Pages of Nomad's UI that this project does not have, by name.
import { html } from '../lib/dom.js'
import { place } from '../lib/router.js'
import { Code } from '../parts/name.js'
import { Page } from '../parts/page.js'

const PAGES = {
  csi: ['CSI volumes and plugins', html`<p>CSI is not part of this project, so there are no CSI volumes and plugins to show.</p>`],
  optimize: ['Recommendations', html`<p>Dynamic application sizing is not part of this project, so there are no recommendations.</p>`],
  storage: ['Storage', html`<p>The web UI has no page of volumes. <${Code} of="nomad volume status" /> lists them, and the page of a node shows its own.</p><p><a href="/ui/clients">Nodes</a></p>`],
}

export default function Absent() {
  const [title, text] = PAGES[place.value.path.split('/')[2]]
  return html`<${Page} title=${title}>${text}<//>`
}
