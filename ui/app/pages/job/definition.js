// The definition of a job: the file that was submitted, and the job as the servers store it.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { href } from '../../lib/router.js'
import { useQuery } from '../../lib/query.js'
import { Failure } from '../../parts/notice.js'
import { Section } from '../../parts/page.js'

export function Definition({ job, namespace }) {
  const source = useQuery(at`/v1/job/${job.ID}/submission`, { params: { namespace, version: job.Version } })
  const absent = source.error?.status === 404
  return html`
    <${Section} title="Submitted file" actions=${html`<a class="button" href=${href('/ui/jobs/run', { job: job.ID, namespace, version: job.Version })}>Edit and plan</a>`}>
      ${source.data && html`<pre tabindex="0" role="region" aria-label="Submitted file"><bdi>${source.data.Source}</bdi></pre>`}
      ${absent && html`<p class="muted">The file of this version is not stored. Jobs that were registered as JSON have none.</p>`}
      ${!absent && html`<${Failure} error=${source.error} what="the submitted file" />`}
    <//>
    <${Section} title="As stored"><pre tabindex="0" role="region" aria-label="Job as stored"><bdi>${JSON.stringify(job, null, 2)}</bdi></pre><//>`
}
