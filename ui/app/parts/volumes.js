import { html } from '../lib/dom.js'
import { count } from '../lib/format.js'
import { pluginHref, volumeHref } from '../lib/links.js'
import { Name } from './name.js'
import { Status } from './status.js'

/** The facets of every list of CSI volumes. */
export const VOLUME_FACETS = [
  { key: 'state', label: 'State', options: [
    { value: 'schedulable', label: 'Schedulable', filter: 'Schedulable == true' },
    { value: 'unschedulable', label: 'Unschedulable', filter: 'Schedulable == false' }] },
  { key: 'use', label: 'Use', options: [
    { value: 'used', label: 'In use', filter: '(CurrentReaders != 0 or CurrentWriters != 0)' },
    { value: 'unused', label: 'Not in use', filter: '(CurrentReaders == 0 and CurrentWriters == 0)' }] },
]

/** The fields that the text of a list of CSI volumes is searched in. */
export const VOLUME_SEARCH = ['ID', 'Name', 'ExternalID', 'PluginID']

/** Whether allocations can be placed with a volume. */
export const volumeStatus = (v) => html`<${Status} of=${v.Schedulable ? 'schedulable' : 'unschedulable'} />`

/** A number of healthy instances of those that should run. */
export const healthyOf = (healthy, expected) => `${count(healthy)} of ${count(expected)}`

/** The columns of every list of CSI volumes, but those left out: 'plugin'. */
export function volumeColumns(without = []) {
  return [
    { label: 'Volume', head: true, cell: (v) => html`<a href=${volumeHref(v.ID, v.Namespace)}><${Name} of=${v.ID} /></a>${v.Name && v.Name !== v.ID && html`<div class="muted small"><${Name} of=${v.Name} /></div>`}` },
    { label: 'Namespace', cell: (v) => html`<${Name} of=${v.Namespace} />` },
    { key: 'plugin', label: 'Plugin', cell: (v) => html`<a href=${pluginHref(v.PluginID)}><${Name} of=${v.PluginID} /></a>` },
    { label: 'State', kind: 'narrow', cell: volumeStatus },
    { label: 'Access', cell: (v) => html`<${Name} of=${v.AccessMode || '–'} />` },
    { label: 'Readers', kind: 'number', cell: (v) => count(v.CurrentReaders) },
    { label: 'Writers', kind: 'number', cell: (v) => count(v.CurrentWriters) },
    { label: 'Healthy nodes', kind: 'narrow', cell: (v) => healthyOf(v.NodesHealthy, v.NodesExpected) },
    { label: 'In the storage system', cell: (v) => html`<${Name} of=${v.ExternalID || '–'} />` },
  ].filter((c) => !without.includes(c.key))
}
