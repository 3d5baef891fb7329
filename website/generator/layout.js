// The frame of a page. It works without scripts; scripts add the search, the theme, the copy buttons and
// the choice of the version.
import path from 'node:path'
import { escape } from './highlight.js'

// layout returns the document of a page.
export function layout({ version, sections, page, content }) {
  const up = '../'.repeat(page.name.split('/').length - 1)
  const link = (p) => path.posix.relative(path.posix.dirname(page.name), p.name + '.html')
  const title = page.name === 'index' ? 'open-nomad' : `${page.title} · open-nomad`
  return `<!doctype html>
<html lang="en" data-up="${up}" data-version="${escape(version)}" data-page="${page.name}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(title)}</title>
<link rel="icon" href="${up}assets/mark.svg">
<link rel="stylesheet" href="${up}assets/site.css">
<script src="${up}assets/theme.js"></script>
<script src="${up}../versions.js" defer></script>
<script src="${up}assets/minisearch.js" defer></script>
<script src="${up}assets/search.js" defer></script>
<script src="${up}assets/site.js" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
${header(up, version)}
<div class="frame">
<nav class="sidebar" id="sidebar" aria-label="Pages">
${sections.map((s) => group(s, page, link)).join('\n')}
</nav>
<main id="content" tabindex="-1">
<p class="trail">${escape(sectionOf(sections, page).title)}</p>
<article>
${content}</article>
${neighbours(sections, page, link)}
</main>
${contents(page)}
</div>
</body>
</html>
`
}

function header(up, version) {
  return `<header class="top">
<button class="menu" type="button" aria-expanded="false" aria-controls="sidebar" hidden>Menu</button>
<a class="home" href="${up}index.html"><svg viewBox="0 0 16 16" width="22" height="22" aria-hidden="true"><path d="M8 1 14 4.5v7L8 15 2 11.5v-7Z" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 5.2 10.4 6.6v2.8L8 10.8 5.6 9.4V6.6Z" fill="currentColor"/></svg><span>open-nomad</span></a>
<form class="search" role="search" hidden>
<label for="query" class="unseen">Search the documentation</label>
<input id="query" type="search" autocomplete="off" spellcheck="false" placeholder="Search" role="combobox" aria-expanded="false" aria-controls="results" aria-autocomplete="list">
<kbd aria-hidden="true">/</kbd>
<div id="results" role="listbox" aria-label="Results" hidden></div>
<p class="unseen" role="status" id="found"></p>
</form>
<div class="tools">
<label class="unseen" for="version">Version</label>
<select id="version"><option>${escape(version)}</option></select>
<button class="theme" type="button" hidden></button>
</div>
</header>`
}

function group(section, page, link) {
  const open = section.pages.includes(page)
  const items = section.pages.map((p) => `<li><a href="${link(p)}"${p === page ? ' aria-current="page"' : ''}>${escape(p.label)}</a></li>`)
  return `<details${open || section.title === 'Start' ? ' open' : ''}><summary>${section.title}</summary>\n<ul>\n${items.join('\n')}\n</ul>\n</details>`
}

const sectionOf = (sections, page) => sections.find((s) => s.pages.includes(page))

// contents is the table of the headings of a page, if it has at least two.
function contents(page) {
  const headings = page.sections.filter((s) => s.level === 2 || (s.level === 3 && page.sections.length < 30))
  if (headings.length < 2) return ''
  const items = headings.map((s) => `<li class="level-${s.level}"><a href="#${s.id}">${escape(s.heading)}</a></li>`)
  return `<nav class="contents" aria-label="On this page"><p>On this page</p>\n<ul>\n${items.join('\n')}\n</ul>\n</nav>`
}

// neighbours leads to the pages before and after, in reading order.
function neighbours(sections, page, link) {
  const all = sections.flatMap((s) => s.pages)
  const i = all.indexOf(page)
  const to = (p, rel, text) => (p ? `<a rel="${rel}" href="${link(p)}"><small>${text}</small>${escape(p.label)}</a>` : '<span></span>')
  return `<nav class="neighbours" aria-label="Previous and next page">${to(all[i - 1], 'prev', 'Previous')}${to(all[i + 1], 'next', 'Next')}</nav>`
}
