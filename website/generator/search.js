// The search index: one entry for each section of a page. It is a script and not JSON, because a page
// opened as a file may load scripts only.
import fs from 'node:fs'
import path from 'node:path'
import MiniSearch from 'minisearch'
import { plain } from './markdown.js'

const excerpt = 180 // characters of a section that results show

// options are those of the index and of the searches in the browser: assets/search.js has the same fields.
export const options = { fields: ['page', 'heading', 'text'], storeFields: ['page', 'heading', 'href', 'excerpt'] }

// sectionsOf splits a page at its headings. text is Markdown.
export function sectionsOf(md, name, text) {
  const sections = []
  for (const [i, token, tokens] of md.parse(text, { page: { filePathStem: '/' + name } }).map((t, i, all) => [i, t, all])) {
    if (token.type === 'heading_open') {
      sections.push({ level: Number(token.tag.slice(1)), heading: plain(tokens[i + 1]), id: token.attrGet('id'), text: [] })
    } else if (token.type === 'inline' && tokens[i - 1]?.type !== 'heading_open') {
      sections.at(-1)?.text.push(plain(token))
    } else if (token.type === 'fence') sections.at(-1)?.text.push(token.content)
  }
  if (sections[0]?.level !== 1) throw new Error(`${name}.md: a page begins with a heading of level one`)
  return sections
}

// writeIndex writes the index of all pages.
export function writeIndex(dir, pages) {
  const index = new MiniSearch(options)
  for (const page of pages) {
    for (const s of page.sections) {
      const text = s.text.join(' ').replace(/\s+/g, ' ')
      index.add({
        id: `${page.name}#${s.id}`, page: page.name.startsWith('commands/') ? page.label : page.title, heading: s.heading, text,
        href: page.name + '.html' + (s.level === 1 ? '' : '#' + encodeURIComponent(s.id)), excerpt: text.slice(0, excerpt),
      })
    }
  }
  fs.writeFileSync(path.join(dir, 'assets', 'index.js'), `window.searchIndex = ${JSON.stringify(index)}\n`)
}
