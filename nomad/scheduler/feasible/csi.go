package feasible

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// CSIWant is the request of one allocation for a CSI volume.
type CSIWant struct {
	Request   *nomad.VolumeRequest
	ID        string     // of the volume
	Namespace string     // of the volume and of the allocation
	Volume    *CSIVolume // nil if the volume does not exist
	Refusal   CSIRefusal // why the allocation may not claim the volume on any node
}

// CSIRefusal is why a CSI volume excludes an allocation. The zero value means that none does.
type CSIRefusal struct {
	Text string
	// Waits means that a change of volumes or other allocations helps. If it is false, only a change of the node does.
	Waits bool
	By    *CSIUse // the use that excludes the allocation, or nil
}

// NewCSIWant returns a request with the refusal that does not depend on the node.
func NewCSIWant(r *nomad.VolumeRequest, alloc *nomad.Allocation, v *CSIVolume, ends func(*nomad.Allocation) bool) CSIWant {
	w := CSIWant{Request: r, ID: r.SourceFor(alloc.Name), Namespace: alloc.Namespace, Volume: v}
	if v != nil {
		w.Refusal = v.refuse(r, nomad.NamespacedID{Namespace: alloc.Namespace, ID: alloc.JobID}, ends)
	}
	return w
}

// CSIAttached returns the volumes that a node has attached or will attach for a plugin, by namespace/ID.
type CSIAttached func(plugin string) map[string]bool

// CheckCSI returns why the volumes exclude an allocation from a node, in the order and with the texts of Nomad.
func CheckCSI(wants []CSIWant, n *nomad.Node, attached CSIAttached) CSIRefusal {
	if missing := missingCSI(wants); missing.Text != "" {
		return missing
	}
	more := csiAdditions{attached: attached}
	for i := range wants {
		w := &wants[i]
		for _, why := range []CSIRefusal{w.plugin(n), more.exceeded(w, n), w.topology(n), w.Refusal} {
			if why.Text != "" {
				return why
			}
		}
	}
	return CSIRefusal{}
}

// missingCSI returns the refusal for the volumes that do not exist.
func missingCSI(wants []CSIWant) CSIRefusal {
	var ids []string
	for i := range wants {
		if w := &wants[i]; w.Volume == nil {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return CSIRefusal{}
	}
	return CSIRefusal{Text: "missing CSI volume(s) " + strings.Join(ids, ", "), Waits: true}
}

// Waits returns what the request waits for, see nomad.Evaluation.MissingNonNodeResources. It is "" if the volume is free.
func (w *CSIWant) Waits() string {
	if w.Volume != nil && w.Refusal.Text == "" {
		return ""
	}
	return csi.Resource(w.Namespace, w.ID)
}

// plugin returns the refusal for a node without a healthy instance of the plugin.
func (w *CSIWant) plugin(n *nomad.Node) CSIRefusal {
	id := w.Volume.PluginID
	switch info := n.CSINodePlugins[id]; {
	case info == nil:
		return CSIRefusal{Text: fmt.Sprintf("CSI plugin %s is missing from client %s", id, n.ID)}
	case !info.Healthy:
		return CSIRefusal{Text: fmt.Sprintf("CSI plugin %s is unhealthy on client %s", id, n.ID)}
	}
	return CSIRefusal{}
}

// topology returns the refusal for a node from which the volume is not accessible.
func (w *CSIWant) topology(n *nomad.Node) CSIRefusal {
	if w.Volume.AccessibleFrom(topologyOf(n, w.Volume.PluginID)) {
		return CSIRefusal{}
	}
	return CSIRefusal{Text: "did not meet topology requirement"}
}

// topologyOf returns the topology that a plugin reports for a node, or nil.
func topologyOf(n *nomad.Node, plugin string) *nomad.CSITopology {
	if info := n.CSINodePlugins[plugin]; info != nil && info.NodeInfo != nil {
		return info.NodeInfo.AccessibleTopology
	}
	return nil
}

// csiAdditions counts the volumes that an allocation adds to those of a node.
type csiAdditions struct {
	attached CSIAttached
	added    map[string]map[string]bool // by plugin
}

// exceeded adds a volume, and returns the refusal for a node that then has more volumes of the plugin than it allows.
func (c *csiAdditions) exceeded(w *CSIWant, n *nomad.Node) CSIRefusal {
	limit := n.CSINodePlugins[w.Volume.PluginID].VolumeLimit()
	if limit == 0 {
		return CSIRefusal{}
	}
	used, after := c.add(w)
	if after == used || int64(after) <= limit {
		return CSIRefusal{}
	}
	return CSIRefusal{Text: fmt.Sprintf("CSI plugin %s has the maximum number of volumes on client %s", w.Volume.PluginID, n.ID), Waits: true}
}

// add adds a volume. It returns the number of volumes of the plugin before, and after.
func (c *csiAdditions) add(w *CSIWant) (before, after int) {
	plugin, key := w.Volume.PluginID, w.Volume.Namespace+"/"+w.Volume.ID
	has := c.attached(plugin)
	before = len(has) + len(c.added[plugin])
	if has[key] || c.added[plugin][key] {
		return before, before
	}
	if c.added == nil {
		c.added = map[string]map[string]bool{}
	}
	if c.added[plugin] == nil {
		c.added[plugin] = map[string]bool{}
	}
	c.added[plugin][key] = true
	return before, before + 1
}
