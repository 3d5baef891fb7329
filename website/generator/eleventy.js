// The configuration of the generator: `make site`. SITE_VERSION is the version of the documentation; its
// pages go to public/SITE_VERSION, next to those of other versions.
import fs from 'node:fs'
import path from 'node:path'
import { layout } from './layout.js'
import { markdown } from './markdown.js'
import { label, navigation } from './navigation.js'
import { sectionsOf, writeIndex } from './search.js'
import { writeVersions } from './versions.js'

const input = 'content/docs'

export default function (eleventy) {
  const version = process.env.SITE_VERSION
  if (!/^[0-9A-Za-z][0-9A-Za-z._-]*$/.test(version ?? '')) throw new Error('SITE_VERSION must be a version, such as 2.0.6: use make site')
  const output = path.join(process.env.SITE_DIR || 'public', version)
  const titles = new Map()
  const md = markdown(input, titles)
  const pages = read(md)
  for (const page of pages) titles.set(page.name, page.title)
  const sections = navigation(pages)
  const byName = new Map(pages.map((p) => [p.name, p]))

  eleventy.setLibrary('md', md)
  eleventy.addGlobalData('eleventyComputed.permalink', () => (data) => `${data.page.filePathStem}.html`)
  eleventy.addPassthroughCopy({ 'generator/assets': 'assets', 'node_modules/minisearch/dist/umd/index.js': 'assets/minisearch.js',
    'node_modules/minisearch/LICENSE.txt': 'assets/LICENSE.minisearch.txt' })
  eleventy.addTransform('layout', function (content) {
    const name = this.page.filePathStem.slice(1)
    return layout({ version, sections, page: byName.get(name), content })
  })
  eleventy.on('eleventy.after', () => {
    writeIndex(output, pages)
    fs.writeFileSync(path.join(output, 'pages.json'), JSON.stringify(pages.map((p) => p.name).sort()))
    writeVersions(path.dirname(output))
  })
  return { dir: { input, output }, templateFormats: ['md'], markdownTemplateEngine: false }
}

// read returns all pages: name, title, label, and sections.
function read(md) {
  return fs.readdirSync(input, { recursive: true }).filter((f) => f.endsWith('.md')).sort().map((file) => {
    const name = file.slice(0, -'.md'.length)
    const sections = sectionsOf(md, name, fs.readFileSync(path.join(input, file), 'utf8'))
    const title = sections[0].heading
    return { name, title, label: label(name, title), sections }
  })
}
