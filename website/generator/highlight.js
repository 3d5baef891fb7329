// Colours of code, made at build time. Console blocks show what a user types and what is printed.
import Prism from 'prismjs'
import load from 'prismjs/components/index.js'

load.silent = true
load(['hcl', 'json', 'bash', 'yaml', 'ini', 'go'])

const names = { sh: 'bash', shell: 'bash' }

// highlight returns the HTML of a fenced block.
export function highlight(text, lang) {
  if (lang === 'console') return session(text)
  const grammar = Prism.languages[names[lang] ?? lang]
  return grammar ? Prism.highlight(text, grammar, lang) : escape(text)
}

// session marks the commands of a console block: lines after the prompt "$ ", and their continuation
// after "> " or a backslash. TestSnippets runs the same lines.
function session(text) {
  let more = false
  return text.replace(/\n$/, '').split('\n').map((line) => {
    const prompt = line.match(/^[$>] /)?.[0] ?? ''
    if (!prompt && !more) return `<span class="output">${escape(line)}</span>`
    more = line.endsWith('\\')
    const mark = prompt && `<span class="prompt" aria-hidden="true">${escape(prompt)}</span>`
    return `${mark}<span class="command">${Prism.highlight(line.slice(prompt.length), Prism.languages.bash, 'bash')}</span>`
  }).join('\n') + '\n'
}

export const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
