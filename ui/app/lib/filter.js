// Expressions of the filter parameter of lists (go-bexpr). The server evaluates them.

/**
 * Quotes a value. The escapes of JSON are valid in filters, but a quotation mark must not appear in a
 * string: it is written by its number.
 */
export function quote(value) {
  return `"${JSON.stringify(String(value).toWellFormed()).slice(1, -1).replace(/\\./g, (escape) => (escape === '\\"' ? '\\u0022' : escape))}"`
}

/** True for rows that contain the text in one of the fields, with the case of the text. */
export function contains(fields, text) {
  return fields.map((field) => `${field} contains ${quote(text)}`).join(' or ')
}

/** Joins conditions. Empty ones are left out. */
export function all(...conditions) {
  const parts = conditions.filter(Boolean)
  return parts.length > 1 ? parts.map((c) => `(${c})`).join(' and ') : parts[0] ?? ''
}
