import { html } from '../lib/dom.js'
import { Code } from './name.js'

const MARKS = { Added: ['+', 'ok', 'added'], Deleted: ['−', 'bad', 'removed'], Edited: ['~', 'warn', 'changed'] }

/** The differences of two versions of a job, or of a plan: an object of the API of the type JobDiff. */
export function JobDiff({ diff }) {
  const parts = [...lines(diff), ...(diff.TaskGroups ?? []).flatMap((g) => block('group', g, [...lines(g), ...(g.Tasks ?? []).flatMap((t) => block('task', t, lines(t)))]))]
  if (parts.length === 0) return html`<p class="muted">No differences.</p>`
  return html`<ul class="diff">${parts}</ul>`
}

/** The fields and blocks of one part of a job. Those that are the same are left out. */
function lines(part) {
  return [
    ...(part.Fields ?? []).filter(differs).map((f) => html`<li><${Mark} type=${f.Type} /><${Code} of=${f.Name} />: <${Change} field=${f} />${(f.Annotations ?? []).map((a) => html` <span class="tag">${a}</span>`)}</li>`),
    ...(part.Objects ?? []).flatMap((o) => block('', o, lines(o))),
  ]
}

const differs = (part) => part.Type in MARKS

/** A block, if it or something in it differs. */
function block(kind, part, inside) {
  if (inside.length === 0 && !differs(part)) return []
  return [html`<li><${Mark} type=${part.Type} />${kind && `${kind} `}<strong><${Code} of=${part.Name} /></strong><ul class="diff">${inside}</ul></li>`]
}

function Mark({ type }) {
  const [sign, tone, word] = MARKS[type] ?? ['', 'idle', '']
  return html`<span class="diff-mark" data-tone=${tone} aria-hidden="true">${sign}</span>${word && html`<span class="hidden">${word}: </span>`}`
}

function Change({ field }) {
  if (field.Type === 'Added') return html`<ins><${Code} of=${field.New} /></ins>`
  if (field.Type === 'Deleted') return html`<del><${Code} of=${field.Old} /></del>`
  return html`<del><${Code} of=${field.Old} /></del> → <ins><${Code} of=${field.New} /></ins>`
}
