// A job that changes while a dialog of its page is open. The dialog keeps the job that the user saw in its state,
// and acts on no other.
import { api, at } from '../../lib/api.js'

const changed = () => new Error('This job was changed since you opened this dialog. Nothing was done: close it to see the job as it is now.')

/**
 * Throws if the job is no longer the one that the user saw. It is for requests that cannot carry an index: a
 * change between this read and the request is not noticed.
 */
export async function needUnchanged(seen) {
  const { data } = await api.get(at`/v1/job/${seen.ID}`, { namespace: seen.Namespace })
  if (data.JobModifyIndex !== seen.JobModifyIndex) throw changed()
}

/** Makes a request that carries what the user saw, and explains the conflict that the server reports. */
export async function expect(request) {
  try {
    return await request
  } catch (err) {
    throw /modify index|enforcing version/i.test(err.message) ? changed() : err
  }
}
