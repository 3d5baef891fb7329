// The sandbox of each task as declared at its start, and as the kernel reports it for the live process.
import { html, useEffect } from '../../lib/dom.js'
import { at } from '../../lib/api.js'
import { plural } from '../../lib/format.js'
import { useQuery } from '../../lib/query.js'
import { Code, Name } from '../../parts/name.js'
import { Empty, Failure, Loading, Notice } from '../../parts/notice.js'
import { Facts, Section } from '../../parts/page.js'
import { Status } from '../../parts/status.js'
import { Table } from '../../parts/table.js'
import { Denials } from './denials.js'

export function Sandboxes({ alloc: a, ended }) {
  const running = Object.entries(a.TaskStates ?? {}).filter(([, s]) => s.State === 'running').map(([name]) => name).join('\n')
  const live = running !== '' && a.DesiredStatus === 'run'
  const { data, error, refresh } = useQuery(!live ? null : at`/v1/client/allocation/${a.ID}/sandbox`, { params: { namespace: a.Namespace } })
  const restarts = Object.values(a.TaskStates ?? {}).map((s) => s.Restarts).join(' ')
  useEffect(() => { if (data) refresh() }, [running, restarts])
  const states = Object.entries(a.TaskStates ?? {}).sort(([x], [y]) => (x < y ? -1 : 1))
  return html`
    ${error?.status === 400 ? html`<${Notice}>${error.message}<//>` : html`<${Failure} error=${error} what="the sandboxes" />`}
    ${!live && html`<${Empty}><p>${ended ? 'The allocation has ended.' : a.DesiredStatus === 'run' ? 'No task is running.' : 'The allocation is being stopped.'} Only running tasks have a live sandbox.</p><//>`}
    ${live && !data && !error && html`<${Loading} />`}
    ${states.map(([name, state]) => html`<${Section} key=${name} title=${html`Task <${Name} of=${name} />`} actions=${html`<button type="button" class="button" onClick=${refresh}>Read again</button>`}>
      <${Denials} events=${state.Events ?? []} />
      ${live && data?.[name] && html`<${Sandbox} of=${data[name]} />`}
      ${data && running.split('\n').includes(name) && !data[name] && html`<p class="muted">The driver of this task makes no sandbox.</p>`}
    <//>`)}`
}

function Sandbox({ of: s }) {
  const differs = s.Layers.filter((l) => !l.Match)
  const isUnreported = (l) => l.Match && l.Live === ''
  const compared = s.Layers.filter((l) => !isUnreported(l))
  const unreported = s.Layers.filter(isUnreported)
  return html`
    ${differs.length > 0 && html`<${Notice} tone="bad" title="The live sandbox is weaker than declared.">${differs.map((l, i) => html`${i > 0 && ', '}<${Name} of=${l.Name} />`)}<//>`}
    <${Facts} rows=${[['Process', String(s.PID)], ['Isolation', html`<${Name} of=${s.Level} />`], ['Denials explained', s.Explain && html`<${Name} of=${s.Explain} />`]]} />
    <div class="panel-gap"><${Table} caption="Layers of the sandbox" rows=${compared} rowKey=${keyOf} columns=${[...COLUMNS, LIVE]} /></div>
    ${unreported.length > 0 && html`<details class="panel-gap"><summary>${plural(unreported.length, 'rule')} as declared: the kernel does not report the rules of a live process</summary>
      <${Table} caption="Rules that the kernel does not report" rows=${unreported} rowKey=${keyOf} columns=${COLUMNS} /></details>`}`
}

const keyOf = (l) => `${l.Name} ${l.Declared}`

const COLUMNS = [
  { label: 'Layer', head: true, cell: (l) => html`<${Code} of=${l.Name} />` },
  { label: 'State', kind: 'narrow', cell: (l) => html`<${Verdict} layer=${l} />` },
  { label: 'Declared', cell: (l) => html`<${Text} of=${l.Declared} />` },
]

const LIVE = { label: 'Live', cell: (l) => (l.Live === '' ? html`<span class="muted">nothing</span>` : l.Live === l.Declared ? html`<span class="muted">the same</span>` : html`<${Text} of=${l.Live} />`) }

const Text = ({ of }) => html`<code class="name layer-text"><bdi>${of}</bdi></code>`

function Verdict({ layer: l }) {
  if (!l.Match) return html`<${Status} of="weaker" label="Weaker" tone="bad" icon="bad" />`
  if (l.Live === '') return html`<${Status} of="declared" label="Declared" tone="idle" icon="shield" />`
  return l.Stricter ? html`<${Status} of="stricter" label="Stricter" tone="ok" icon="lock" />` : html`<${Status} of="matches" label="As declared" tone="ok" icon="ok" />`
}
