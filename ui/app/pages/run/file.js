// Job files: reading a file, and turning its text into a job of the API.
import { api, at, send } from '../../lib/api.js'

/** The largest file that is read. */
const MOST_BYTES = 1 << 20

/** Reads a file of the user as text. */
export async function readFile(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${file.size} bytes: a job file has 1 MiB at most.`)
  const text = await file.text()
  if (text.includes('\u0000')) throw new Error(`${file.name} is not a text file.`)
  return text
}

/** The format of a text: JSON begins with a brace, HCL never does. */
export const formatOf = (text) => (text.trimStart().startsWith('{') ? 'json' : 'hcl2')

/**
 * Returns the job of a text.
 * @param {{source: string, variables: string, namespace: string}} draft variables are HCL
 */
export async function parseJob({ source, variables, namespace }) {
  if (source.length + variables.length > MOST_BYTES) throw new Error('The file has more than 1 MiB. Use "nomad job run".')
  if (formatOf(source) === 'hcl2') {
    const body = { JobHCL: source, Variables: variables, Canonicalize: true }
    const response = await send('PUT', at`/v1/jobs/parse`, { params: { namespace }, body })
    return exact(await response.text())
  }
  let value
  try {
    value = exact(source)
  } catch (err) {
    throw err instanceof SyntaxError ? new Error(`The text begins with a brace, so it must be JSON: ${err.message}`) : err
  }
  const job = value.Job ?? value
  if (typeof job !== 'object' || Array.isArray(job) || !job.ID) throw new Error('The JSON is not a job: it has no ID. Use the form of "nomad job run -output".')
  return job
}

/**
 * Returns the draft that changes a job: the file that was submitted with its variables, or else the
 * job as JSON.
 * @param {string} id @param {string} namespace @param {string} version
 */
export async function draftOf(id, namespace, version) {
  try {
    const { data } = await api.get(at`/v1/job/${id}/submission`, { namespace, version })
    return { source: data.Source, variables: variablesOf(data), namespace }
  } catch (err) {
    if (err.status !== 404) throw err
    const response = await send('GET', at`/v1/job/${id}`, { params: { namespace } })
    return { source: JSON.stringify({ Job: exact(await response.text()) }, null, 2), variables: '', namespace }
  }
}

/** The variables of a submission as HCL: those of its files, and those that were flags of "nomad job run". */
export function variablesOf({ Variables: text, VariableFlags: flags }) {
  const lines = Object.entries(flags ?? {}).sort().map(([name, value]) => `${name} = ${JSON.stringify(value).replace(/([$%])\{/g, '$1$1{')}`)
  return [text?.trimEnd(), ...lines].filter(Boolean).join('\n')
}

/**
 * Parses JSON. Integers that a browser would round are an error: the job would not be the one of the
 * file. Times that only servers set are left out.
 */
function exact(text) {
  return JSON.parse(text, function check(key, value) {
    if (!Number.isInteger(value) || Number.isSafeInteger(value)) return value
    if ((key === 'SubmitTime' && 'TaskGroups' in this) || (key === 'TaggedTime' && 'Description' in this)) return undefined
    throw new Error(`The number ${value} of ${JSON.stringify(key)} is too large for a browser. Use "nomad job run".`)
  })
}
