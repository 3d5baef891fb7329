package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// csiPlugins has a record for each plugin with a job or an instance. It is computed from the rows of jobs, summaries, nodes and
// allocations, in the transaction that changes these. See csi.Expected for jobs.
//
// A node reports its instances. One counts only while an allocation of the node runs a task with the csi_plugin block, and has
// not been stopped or ended: otherwise any node could report a controller, and would get the secrets of its volumes.
var csiPlugins = &table.Table[csi.Plugin]{
	Name:   TableCSIPlugins,
	Events: true,
	ID:     func(p *csi.Plugin) table.Key { return table.KeyOf(p.ID) },
}

// CSIPlugin returns the record of a plugin, or nil if there is none.
func (s *Snapshot) CSIPlugin(ws memdb.WatchSet, id string) *csi.Plugin {
	return csiPlugins.Get(s.tx, ws, table.KeyOf(id))
}

// CSIPlugins returns every plugin, by ID.
func (s *Snapshot) CSIPlugins(ws memdb.WatchSet) iter.Seq[*csi.Plugin] {
	return csiPlugins.All(s.tx, ws)
}

// DeleteCSIPlugin removes the record of a plugin without instances and jobs. A plugin that does not exist is not an error.
func (s *Store) DeleteCSIPlugin(index uint64, req *message.CSIPluginDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		p := csiPlugins.Get(t, nil, table.KeyOf(req.ID))
		if p == nil {
			return nil
		}
		if !p.Empty() {
			return fmt.Errorf("%w: %s", csi.ErrPluginInUse, req.ID)
		}
		csiPlugins.Delete(t.Txn, p)
		return nil
	})
}

// editPlugin stores what edit makes of the record of a plugin. It creates the record for the first job or instance, and deletes
// it with the last.
func (t *txn) editPlugin(id string, edit func(*csi.Plugin) *csi.Plugin) {
	old := csiPlugins.Get(t, nil, table.KeyOf(id))
	before := old
	if before == nil {
		before = csi.NewPlugin(id)
		before.CreateIndex, before.CreateTime = t.Index, t.at
	}
	p := edit(before)
	switch {
	case p == before || old == nil && p.Empty():
		return
	case p.Empty():
		csiPlugins.Delete(t.Txn, old)
		return
	}
	p.ModifyIndex, p.ModifyTime = t.Index, max(before.ModifyTime, t.at)
	csiPlugins.Put(t.Txn, p)
	if p.Schedulable() && !old.Schedulable() {
		for v := range csiVolumes.By(t, nil, "plugin_id", table.KeyOf(id)) {
			t.retryCSI(v)
		}
	}
}

// followInstances updates the records of plugins after a change of a node or of its allocations. The node may be deleted.
func (t *txn) followInstances(node string) {
	n := nodes.Get(t, nil, table.KeyOf(node))
	reports := map[nomad.CSIPluginType]map[string]*nomad.CSIInfo{}
	touched := map[string]bool{}
	if n != nil {
		reports[csi.PluginController], reports[csi.PluginNode] = n.CSIControllerPlugins, n.CSINodePlugins
	}
	for p := range csiPlugins.All(t, nil) {
		if p.Controllers[node] != nil || p.Nodes[node] != nil {
			touched[p.ID] = true
		}
	}
	for _, infos := range reports {
		for id := range infos {
			touched[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		t.editPlugin(id, func(p *csi.Plugin) *csi.Plugin {
			for _, kind := range csi.Kinds() {
				p = p.WithInstance(kind, node, t.instance(node, csi.Part{Plugin: id, Kind: kind}, reports[kind][id]))
			}
			return p
		})
	}
}

// instance returns the report of a node about an instance, or nil if no allocation of the node runs it.
func (t *txn) instance(node string, part csi.Part, info *nomad.CSIInfo) *nomad.CSIInfo {
	if info == nil || !csi.RunsPart(allocs.Get(t, nil, table.KeyOf(info.AllocID)), node, part) {
		return nil
	}
	return info
}

// followPluginAlloc updates the records of the plugins that an allocation runs, after it was placed, stopped, ended, or deleted.
func (t *txn) followPluginAlloc(a, old *nomad.Allocation) {
	if a != nil && old != nil && a.TerminalStatus() == old.TerminalStatus() &&
		a.Job == old.Job && a.TaskGroup == old.TaskGroup && a.NodeID == old.NodeID {
		return
	}
	if csi.RunsPlugins(a) {
		t.followInstances(a.NodeID)
	}
	if csi.RunsPlugins(old) && (!csi.RunsPlugins(a) || a.NodeID != old.NodeID) {
		t.followInstances(old.NodeID)
	}
}

// followPluginJob updates the records of the plugins that a job runs, or that its old version ran. The old version is nil for a
// new job. A purged job is removed from them.
func (t *txn) followPluginJob(id nomad.NamespacedID, old *nomad.Job) {
	j := jobs.Get(t, nil, table.KeyOf(id.Namespace, id.ID))
	var want, had map[csi.Part]int
	if j != nil {
		want = csi.Expected(j, jobSummaries.Get(t, nil, table.KeyOf(id.Namespace, id.ID)))
	}
	if old != nil {
		had = csi.Expected(old, nil)
	}
	touched := map[string]bool{}
	for _, parts := range []map[csi.Part]int{want, had} {
		for part := range parts {
			touched[part.Plugin] = true
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(touched)) {
		t.editPlugin(plugin, func(p *csi.Plugin) *csi.Plugin {
			for _, kind := range csi.Kinds() {
				n, runs := want[csi.Part{Plugin: plugin, Kind: kind}]
				if runs {
					p = p.WithJob(kind, csi.JobDescription{Namespace: id.Namespace, ID: id.ID, Expected: n})
				} else {
					p = p.WithoutJob(kind, id)
				}
			}
			return p
		})
	}
}

// followPluginSummary updates the records of plugins after a change of the summary of a job, which has the counts of system jobs.
func (t *txn) followPluginSummary(sum *nomad.JobSummary) {
	j := jobs.Get(t, nil, table.KeyOf(sum.Namespace, sum.JobID))
	if j != nil && (j.Type == nomad.JobTypeSystem || j.Type == nomad.JobTypeSysBatch) {
		t.followPluginJob(j.NamespacedID(), j)
	}
}

// restorePlugins computes the records of plugins after a restore: other builds count differently, and earlier versions of this one
// did not follow jobs and nodes.
func (t *txn) restorePlugins() {
	known := map[string]bool{}
	for _, p := range slices.Collect(csiPlugins.All(t, nil)) {
		for _, kind := range csi.Kinds() {
			for ns, ofNamespace := range p.Jobs(kind) {
				for id := range ofNamespace {
					t.dropPluginJob(p.ID, kind, nomad.NamespacedID{Namespace: ns, ID: id})
				}
			}
			for node := range p.Instances(kind) {
				known[node] = true
			}
		}
		if p.Empty() {
			csiPlugins.Delete(t.Txn, p)
		}
	}
	for n := range nodes.All(t, nil) {
		if len(n.CSIControllerPlugins)+len(n.CSINodePlugins) > 0 {
			known[n.ID] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(known)) {
		t.followInstances(node)
	}
	for j := range jobs.All(t, nil) {
		t.followPluginJob(j.NamespacedID(), nil)
	}
}

// dropPluginJob removes a job from a restored record if it does not exist or does not run the plugin.
func (t *txn) dropPluginJob(plugin string, kind nomad.CSIPluginType, id nomad.NamespacedID) {
	if j := jobs.Get(t, nil, table.KeyOf(id.Namespace, id.ID)); j != nil {
		if _, runs := csi.Expected(j, nil)[csi.Part{Plugin: plugin, Kind: kind}]; runs {
			return
		}
	}
	t.editPlugin(plugin, func(p *csi.Plugin) *csi.Plugin { return p.WithoutJob(kind, id) })
}

// canonicalCSIPlugin sets the maps that other builds leave out of snapshots.
func canonicalCSIPlugin(p *csi.Plugin) {
	p.Allocations = nil
	*p = *p.Counted()
}

// nanos converts seconds since 1970 to ns.
func nanos(seconds int64) int64 { return seconds * int64(time.Second) }
