// Expressions of the filter parameter of lists (go-bexpr). The server evaluates them.

/** Quotes a value. JSON strings are valid in filters. */
export const quote = (value) => JSON.stringify(String(value))

/** True for rows that contain the text in one of the fields, with the case of the text. */
export function contains(fields, text) {
  return fields.map((field) => `${field} contains ${quote(text)}`).join(' or ')
}

/** Joins conditions. Empty ones are left out. */
export function all(...conditions) {
  const parts = conditions.filter(Boolean)
  return parts.length > 1 ? parts.map((c) => `(${c})`).join(' and ') : parts[0] ?? ''
}
