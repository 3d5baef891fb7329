// The Markdown of the pages. They must stay readable as plain files, so all rules work on plain Markdown:
// links to .md files, GitHub's anchors, comments that mark snippets.
import fs from 'node:fs'
import path from 'node:path'
import MarkdownIt from 'markdown-it'
import anchor from 'markdown-it-anchor'
import { highlight } from './highlight.js'

// slug makes the anchor of a heading as GitHub does. The Go test TestPageLinks has the same rule.
export const slug = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

// markdown returns the renderer. root is the directory of the pages, titles are their titles by name; the
// caller may add to it until a page is rendered.
export function markdown(root, titles) {
  const md = new MarkdownIt({ html: true, highlight })
  md.use(anchor, { slugify: slug, tabIndex: false })
  md.renderer.rules.html_block = comment
  md.renderer.rules.html_inline = comment
  md.renderer.rules.table_open = () => '<div class="table" tabindex="0" role="region" aria-label="Table"><table>\n'
  md.renderer.rules.table_close = () => '</table></div>\n'
  md.renderer.rules.fence = fence
  md.renderer.rules.heading_close = headingClose
  md.renderer.rules.image = (tokens, i, _, env) => image(tokens[i], env, root)
  md.core.ruler.push('page-links', (state) => pageLinks(state, titles))
  return md
}

// comment drops the markers of the snippets. Other HTML would not be readable as a plain file.
function comment(tokens, i) {
  const text = tokens[i].content.replace(/<!--[\s\S]*?-->/g, '').trim()
  if (text) throw new Error(`HTML in a page: ${text}`)
  return ''
}

function fence(tokens, i, options) {
  const lang = tokens[i].info.trim() || 'text'
  return `<div class="code"><pre tabindex="0"><code class="language-${lang}">${options.highlight(tokens[i].content, lang)}</code></pre></div>\n`
}

// headingClose adds the link to the section. Headings of level one have none.
function headingClose(tokens, i) {
  const open = tokens[i - 2]
  const id = open.attrGet('id')
  if (open.tag === 'h1') return '</h1>\n'
  const name = new MarkdownIt().utils.escapeHtml(plain(tokens[i - 1]))
  return `<a class="anchor" href="#${id}" aria-label="Link to the section ${name}">#</a></${open.tag}>\n`
}

// image inserts pictures into the page, so that they follow its theme.
function image(token, env, root) {
  const file = path.join(root, path.dirname(env.page.filePathStem), token.attrGet('src'))
  if (!file.endsWith('.svg')) throw new Error(`${file}: pictures are SVG files`)
  return fs.readFileSync(file, 'utf8').replace(/^<\?xml.*?\?>\s*/, '')
}

// pageLinks points links between pages to the pages of the site. Links to other files of the repository
// become text, because the site has no such files. A link whose text is a file name gets the title of the page.
function pageLinks(state, titles) {
  const dir = path.posix.dirname(state.env.page?.filePathStem ?? '/')
  for (const block of state.tokens.filter((t) => t.type === 'inline')) {
    let dropped = false
    for (const [i, token] of block.children.entries()) {
      if (token.type === 'link_close' && dropped) [token.tag, dropped] = ['span', false]
      if (token.type !== 'link_open') continue
      const href = token.attrGet('href')
      if (/^(https?:|mailto:|#)/.test(href)) continue
      if (path.posix.join(dir.slice(1), href).startsWith('..')) {
        Object.assign(token, { tag: 'span', attrs: null })
        dropped = true
        continue
      }
      token.attrSet('href', href.replace(/\.md(?=#|$)/, '.html'))
      const text = block.children[i + 1]
      const title = titles.get(path.posix.join(dir.slice(1), href).replace(/\.md(#.*)?$/, ''))
      if (title && /^[\w./-]+\.md$/.test(text.content)) text.content = title
    }
  }
}

// plain returns the text of an inline token.
export function plain(token) {
  return token.children.map((t) => (t.type === 'softbreak' ? ' ' : t.type === 'text' || t.type === 'code_inline' ? t.content : '')).join('')
}
