/**
 * Splits a command into words, as a shell does: at spaces, except in quotation marks and after a
 * backslash. Nothing else is expanded. Returns null if a quotation mark is open or there is no word.
 * @returns {string[]|null}
 */
export function words(text) {
  const out = []
  let word = null
  let quote = ''
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (c === '\\' && quote !== "'") {
      if (++i === text.length) return null
      word = (word ?? '') + text[i]
    } else if (quote !== '') {
      if (c === quote) quote = ''
      else word += c
    } else if (c === '"' || c === "'") {
      quote = c
      word ??= ''
    } else if (/\s/.test(c)) {
      if (word !== null) out.push(word)
      word = null
    } else {
      word = (word ?? '') + c
    }
  }
  if (word !== null) out.push(word)
  return quote === '' && out.length > 0 && out[0] !== '' ? out : null
}
