// The deployments of a job, the newest first.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { useQuery } from '../../lib/query.js'
import { Empty, Failure, Loading } from '../../parts/notice.js'
import { DeploymentPanel } from './deployment.js'

export function Deployments({ job, namespace }) {
  const { data, error, refresh } = useQuery(at`/v1/job/${job.ID}/deployments`, { params: { namespace }, topics: [`Deployment:${job.ID}`] })
  const newest = [...(data ?? [])].sort((a, b) => b.CreateIndex - a.CreateIndex)
  return html`
    <${Failure} error=${error} what="the deployments" />
    ${data === undefined && !error && html`<${Loading} />`}
    ${data !== undefined && newest.length === 0 && html`<${Empty}>This job has no deployments. Service jobs with an <code>update</code> block have them.<//>`}
    ${newest.map((d) => html`<${DeploymentPanel} key=${d.ID} deployment=${d} refresh=${refresh} />`)}`
}
