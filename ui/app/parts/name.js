import { html } from '../lib/dom.js'

/**
 * A name from the cluster. It is isolated from the text around it, because a name can contain
 * right-to-left text, and it breaks anywhere, because it can be long.
 */
export function Name({ of }) {
  return html`<bdi class="name">${of}</bdi>`
}

/** An ID or a value in the type of code, isolated like a name. */
export function Code({ of }) {
  return html`<code class="name"><bdi>${of}</bdi></code>`
}
