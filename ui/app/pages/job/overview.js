// The overview of a job: what it should run, what runs, and why something does not.
import { html } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { quote } from '../../lib/filter.js'
import { plural } from '../../lib/format.js'
import { jobHref, volumeHref, webAddress } from '../../lib/links.js'
import { useQuery } from '../../lib/query.js'
import { allocParts, Bar } from '../../parts/bar.js'
import { DialogButton } from '../../parts/dialog.js'
import { Icon } from '../../parts/icon.js'
import { Code, Name } from '../../parts/name.js'
import { Facts, Section } from '../../parts/page.js'
import { Placement } from '../../parts/placement.js'
import { jobStatus, Status } from '../../parts/status.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'
import { ScaleDialog } from './actions.js'
import { DeploymentPanel } from './deployment.js'

export function Overview({ job, summary, namespace, refresh }) {
  return html`
    <${About} job=${job} />
    <${Facts} rows=${[
      ['ID', html`<${Code} of=${job.ID} />`], ['Version', String(job.Version)], ['Submitted', html`<${Ago} at=${job.SubmitTime} />`],
      ['Priority', String(job.Priority)], ['Node pool', html`<${Name} of=${job.NodePool} />`], ['Datacenters', html`<${Name} of=${(job.Datacenters ?? []).join(', ')} />`],
      ['Schedule', schedule(job)], ['Status', job.StatusDescription],
    ]} />
    <${Unplaced} job=${job} namespace=${namespace} />
    <${Latest} job=${job} namespace=${namespace} />
    ${job.Periodic?.Enabled || job.ParameterizedJob ? html`<${Children} job=${job} summary=${summary} namespace=${namespace} />` : html`<${Groups} job=${job} summary=${summary} refresh=${refresh} />`}
    <${Volumes} job=${job} />`
}

const schedule = (job) => (job.Periodic?.Enabled ? html`<${Code} of=${[job.Periodic.Spec, ...(job.Periodic.Specs ?? [])].filter(Boolean).join('; ')} /> ${job.Periodic.TimeZone}` : null)

/** The ui block of the job: a description and links. The links of a job lead to web pages only. */
function About({ job }) {
  if (!job.UI?.Description && !job.UI?.Links?.length) return null
  return html`<div class="about">
    ${job.UI.Description && html`<p><bdi>${job.UI.Description}</bdi></p>`}
    ${(job.UI.Links ?? []).map((link) => {
      const address = webAddress(link.URL ?? link.Url)
      return address && html`<a href=${address} target="_blank" rel="noreferrer"><${Name} of=${link.Label || address} /><${Icon} name="link" /></a>`
    })}
  </div>`
}

/** The newest evaluation, if it could not place everything. */
function Unplaced({ job, namespace }) {
  const { data } = useQuery(at`/v1/evaluations`, {
    params: { namespace, filter: `JobID == ${quote(job.ID)}`, reverse: true, per_page: 10 }, topics: [`Evaluation:${job.ID}`],
  })
  const newest = (data ?? []).find((e) => e.Status === 'blocked') ?? (data ?? []).find((e) => e.Status === 'complete')
  const failed = Object.entries(newest?.FailedTGAllocs ?? {})
  if (job.Stop || failed.length === 0) return null
  return html`<${Section} title="Not placed">${failed.map(([group, metric]) => html`<${Placement} group=${group} metric=${metric} />`)}<//>`
}

/** The newest deployment, while it is not successful. */
function Latest({ job, namespace }) {
  const { data, refresh } = useQuery(at`/v1/job/${job.ID}/deployment`, { params: { namespace }, topics: [`Deployment:${job.ID}`] })
  if (!data?.ID || data.JobVersion !== job.Version || data.Status === 'successful') return null
  return html`<${Section} title="Deployment"><${DeploymentPanel} key=${data.ID} heading="h3" deployment=${data} refresh=${refresh} /><//>`
}

function Groups({ job, summary, refresh }) {
  const columns = [
    { label: 'Group', head: true, cell: (g) => html`<${Name} of=${g.Name} />` },
    { label: 'Count', kind: 'number', cell: (g) => g.Count },
    { label: 'Allocations', cell: (g) => html`<${Bar} label="Allocations" parts=${allocParts({ ...EMPTY, ...summary?.Summary?.[g.Name] })} />` },
    { label: 'Tasks', cell: (g) => g.Tasks.map((t) => html`<span class="tag"><${Name} of=${t.Name} /> <span class="muted">${t.Driver}</span></span> `) },
    { label: 'Actions', kind: 'narrow', cell: (g) => html`<${DialogButton} label="Scale" disabled=${job.Stop || job.Type === 'system' || job.Type === 'sysbatch'}
      dialog=${(close) => html`<${ScaleDialog} job=${job} group=${g} onClose=${close} onDone=${refresh} />`} />` },
  ]
  return html`<${Section} title="Groups"><${Table} caption="Groups" columns=${columns} rows=${job.TaskGroups} rowKey=${(g) => g.Name} /><//>`
}

const EMPTY = { Queued: 0, Starting: 0, Running: 0, Unknown: 0, Failed: 0, Lost: 0, Complete: 0 }

const VOLUMES = [
  { label: 'Volume', head: true, cell: (v) => html`<${Name} of=${v.Name} />` },
  { label: 'Group', cell: (v) => html`<${Name} of=${v.group} />` },
  { label: 'Type', kind: 'narrow', cell: (v) => html`<${Name} of=${v.Type} />` },
  { label: 'Source', cell: (v) => (v.Type === 'csi' && !v.PerAlloc
    ? html`<a href=${volumeHref(v.Source, v.namespace)}><${Name} of=${v.Source} /></a>`
    : html`<${Name} of=${v.Source} />${v.PerAlloc && html` <span class="muted">one for each allocation</span>`}`) },
  { label: 'Access', cell: (v) => html`${v.ReadOnly ? 'read' : 'read and write'}${v.AccessMode && html` <span class="muted"><${Name} of=${v.AccessMode} /></span>`}` },
]

/** The volumes that the groups request. */
function Volumes({ job }) {
  const rows = job.TaskGroups.flatMap((g) => Object.entries(g.Volumes ?? {}).map(([name, v]) => ({ ...v, Name: v.Name || name, group: g.Name, namespace: job.Namespace })))
  if (rows.length === 0) return null
  return html`<${Section} title="Volumes"><${Table} caption="Volumes" columns=${VOLUMES} rows=${rows} rowKey=${(v) => `${v.group}/${v.Name}`} /><//>`
}

/** The newest runs of a periodic or parameterized job. */
function Children({ job, summary, namespace }) {
  const { data } = useQuery(at`/v1/jobs`, { params: { namespace, prefix: `${job.ID}/`, filter: `ParentID == ${quote(job.ID)}`, per_page: 20, reverse: true }, topics: ['Job', 'Allocation'], namespace })
  const rows = data ?? []
  const n = summary?.Children
  const columns = [
    { label: 'Run', head: true, cell: (j) => html`<a href=${jobHref(j.ID, namespace)}><${Name} of=${j.ID.slice(job.ID.length + 1)} /></a>` },
    { label: 'Status', kind: 'narrow', cell: (j) => html`<${Status} of=${jobStatus(j)} />` },
    { label: 'Submitted', kind: 'narrow', cell: (j) => html`<${Ago} at=${j.SubmitTime} />` },
  ]
  return html`<${Section} title="Runs">
    ${n && html`<p>${plural(n.Running, 'run')} now, ${n.Pending} pending, ${n.Dead} ended.</p>`}
    ${rows.length > 0 ? html`<${Table} caption="Runs" columns=${columns} rows=${rows} rowKey=${(j) => j.ID} />` : html`<p class="muted">No run is stored.</p>`}
  <//>`
}
