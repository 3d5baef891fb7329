// A conflict: the variable was changed by someone else since the form was opened. Both values of each
// item are shown, and the user chooses. Nothing is written before.
import { html, useState } from '../../lib/dom.js'
import { Code } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Ago } from '../../parts/time.js'

/**
 * Compares three versions of the items: base was the one that both changed. Returns the names whose
 * values differ, with the side that the merge chooses, or '' if both sides changed the value.
 */
export function compare(base, mine, theirs) {
  const names = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].sort()
  return names.filter((name) => mine[name] !== theirs[name]).map((name) => ({
    name, mine: mine[name], theirs: theirs[name],
    choice: mine[name] === base[name] ? 'theirs' : theirs[name] === base[name] ? 'mine' : '',
  }))
}

/** The items after the choices: those that do not differ, and of each difference the chosen side. */
export function merge(mine, differences, choices) {
  const out = { ...mine }
  for (const { name, theirs } of differences) {
    if (choices[name] !== 'theirs') continue
    if (theirs === undefined) delete out[name]
    else out[name] = theirs
  }
  return out
}

/**
 * @param {{base: object, mine: object, theirs: object|null, at: number, busy: boolean, onSave: (items: object) => void, onBack: () => void}} props
 *   theirs is null if the token may not read the variable; at is the time of the other change
 */
export function Conflict({ base, mine, theirs, at, busy, onSave, onBack }) {
  const differences = compare(base, mine, theirs ?? {})
  const [choices, setChoices] = useState(Object.fromEntries(differences.map((d) => [d.name, d.choice])))
  const open = differences.filter((d) => !choices[d.name]).length
  if (!theirs) {
    return html`<${Notice} tone="warn" title="Someone else changed this variable." actions=${html`<button type="button" class="button" onClick=${onBack}>Back to my changes</button>`}>
      Your token may not read it, so the changes cannot be compared. Nothing was written.<//>`
  }
  const cell = (value) => (value === undefined ? html`<em>no such item</em>` : html`<pre class="value"><bdi>${value}</bdi></pre>`)
  const side = (d, which, label) => html`<label class="side"><input type="radio" name=${`choice ${d.name}`} checked=${choices[d.name] === which}
    onChange=${() => setChoices({ ...choices, [d.name]: which })} /><span>${label}</span></label>${cell(d[which])}`
  return html`<section class="conflict" aria-label="Conflict">
    <${Notice} tone="warn" title="Someone else changed this variable.">Nothing was written. ${at ? html`The other change was made <${Ago} at=${at} />. ` : ''}
      Choose a value for each item that differs. Your values stay here until you save or leave the page.<//>
    ${differences.map((d) => html`<fieldset class="panel" key=${d.name}><legend>Item <${Code} of=${d.name} /></legend>
      <div class="sides"><div>${side(d, 'mine', 'Your value')}</div><div>${side(d, 'theirs', 'The stored value')}</div></div></fieldset>`)}
    ${differences.length === 0 && html`<p>Both have the same items now.</p>`}
    <div class="actions">
      <button type="button" class="button" onClick=${onBack}>Back to my changes</button>
      <button type="button" class="button primary" disabled=${busy || open > 0} onClick=${() => onSave(merge(mine, differences, choices))}>Save the chosen values</button>
      ${open > 0 && html`<span class="muted">${open} without a choice</span>`}
    </div>
  </section>`
}
