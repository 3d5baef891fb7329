// The versions of a job with their differences, the newest first.
import { html, useState } from '../../lib/dom.js'
import { api, at } from '../../lib/api.js'
import { useQuery } from '../../lib/query.js'
import { Dialog, DialogButton } from '../../parts/dialog.js'
import { JobDiff } from '../../parts/diff.js'
import { Name } from '../../parts/name.js'
import { Failure, Loading } from '../../parts/notice.js'
import { Ago } from '../../parts/time.js'
import { expect } from './conflict.js'

export function Versions({ job, namespace, refresh }) {
  const { data, error } = useQuery(at`/v1/job/${job.ID}/versions`, { params: { namespace, diffs: true }, topics: [`Job:${job.ID}`] })
  return html`
    <${Failure} error=${error} what="the versions" />
    ${data === undefined && !error && html`<${Loading} />`}
    ${(data?.Versions ?? []).map((v, i) => html`<article class="panel" key=${v.Version}>
      <div class="panel-head">
        <h2>Version ${v.Version}</h2>
        ${v.Version === job.Version && html`<span class="tag">current</span>`}${v.Stable && html`<span class="tag">stable</span>`}${v.Stop && html`<span class="tag">stopped</span>`}
        ${v.VersionTag?.Name && html`<span class="tag">tag <${Name} of=${v.VersionTag.Name} /></span>`}
        <span class="muted small"><${Ago} at=${v.SubmitTime} /></span>
        <div class="actions">${v.Version !== job.Version && html`<${DialogButton} label="Revert to this" dialog=${(close) => html`<${Revert} job=${job} version=${v.Version} onClose=${close} onDone=${refresh} />`} />`}</div>
      </div>
      ${data.Diffs?.[i] ? html`<${JobDiff} diff=${data.Diffs[i]} />` : html`<p class="muted">The oldest version that is stored.</p>`}
    </article>`)}`
}

function Revert({ job, version, onClose, onDone }) {
  const [seen] = useState(job.Version) // the page goes on behind the dialog
  async function confirm() {
    // The version that the user saw must still be the current one.
    await expect(api.put(at`/v1/job/${job.ID}/revert`, { JobID: job.ID, JobVersion: version, EnforcePriorVersion: seen }, { namespace: job.Namespace }))
    await onDone()
  }
  return html`<${Dialog} title=${`Revert to version ${version}?`} action="Revert" onClose=${onClose} onConfirm=${confirm}>
    <p>Version ${version} of <strong><${Name} of=${job.Name} /></strong> is registered as a new version and deployed.</p>
  <//>`
}
