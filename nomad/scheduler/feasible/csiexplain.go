package feasible

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// maxShown is how much of a text of a plugin an explanation shows, in bytes.
const maxShown = 512

// ExplainCSI calls f with the result of each check of CheckCSI, in its order.
func ExplainCSI(wants []CSIWant, n *nomad.Node, attached CSIAttached, f func(Check)) {
	for i := range wants {
		if w := &wants[i]; w.Volume == nil {
			f(Check{Name: CheckVolumes, Need: fmt.Sprintf("CSI volume %q", w.ID),
				Found: fmt.Sprintf("namespace %q has no such volume: register or create it", w.Namespace)})
		}
	}
	more := csiAdditions{attached: attached}
	for i := range wants {
		if w := &wants[i]; w.Volume != nil {
			w.explain(n, &more, f)
		}
	}
}

func (w *CSIWant) explain(n *nomad.Node, more *csiAdditions, f func(Check)) {
	plugin := w.Volume.PluginID
	f(Check{Name: CheckVolumes, Passed: w.plugin(n).Text == "", Need: fmt.Sprintf("CSI plugin %q of volume %q", plugin, w.ID),
		Found: foundPlugin(n, plugin)})
	if limit := n.CSINodePlugins[plugin].VolumeLimit(); limit > 0 {
		before, after := more.add(w)
		found := fmt.Sprintf("%d of %d used", before, limit)
		if before == after {
			found += ", which include it"
		}
		f(Check{Name: CheckVolumes, Passed: before == after || int64(after) <= limit, Found: found,
			Need: fmt.Sprintf("room for a volume of CSI plugin %q", plugin)})
	}
	if places := topologies(w.Volume.Topologies); places != "" {
		f(Check{Name: CheckVolumes, Passed: w.topology(n).Text == "", Need: fmt.Sprintf("topology of CSI volume %q: %s", w.ID, places),
			Found: segments(topologyOf(n, plugin))})
	}
	use := "writing"
	if w.Request.Reads() {
		use = "reading"
	}
	f(Check{Name: CheckVolumes, Passed: w.Refusal.Text == "", Need: fmt.Sprintf("CSI volume %q for %s", w.ID, use), Found: w.found()})
}

// foundPlugin describes the instance of a plugin on a node.
func foundPlugin(n *nomad.Node, plugin string) string {
	info := n.CSINodePlugins[plugin]
	if info == nil {
		return "the node runs no instance of it: a job with its csi_plugin block must run there"
	}
	if info.Healthy {
		return "healthy"
	}
	return "unhealthy: " + untrusted.Line(info.HealthDescription, maxShown)
}

// found describes why the volume is not free.
func (w *CSIWant) found() string {
	v := w.Volume
	if w.Refusal.Text == "" {
		return "free"
	}
	if !v.Schedulable {
		if v.ControllerRequired {
			return fmt.Sprintf("plugin %q has %d healthy instances on nodes and %d healthy controllers: it needs one of each", v.PluginID,
				v.NodesHealthy, v.ControllersHealthy)
		}
		return fmt.Sprintf("plugin %q has no healthy instance on a node", v.PluginID)
	}
	if w.Refusal.By == nil {
		return "none of its capabilities allows it: register the volume with another access_mode"
	}
	return w.Refusal.By.describe(v)
}

// describe describes the use of a volume that excludes another one, and what ends it.
func (u *CSIUse) describe(v *CSIVolume) string {
	b := &strings.Builder{}
	if u.Claim == nil {
		fmt.Fprintf(b, "CSI volume %s is requested by %s, which has not claimed it yet", v.ID, u.holder())
		return b.String()
	}
	fmt.Fprintf(b, "CSI volume %s is claimed by %s", v.ID, u.holder())
	if u.Claim.Since > 0 {
		fmt.Fprintf(b, " since %s", time.Unix(0, u.Claim.Since).UTC().Format(time.RFC3339))
	}
	b.WriteString(": it waits for ")
	switch {
	case u.Claim.Waits != "":
		b.WriteString(untrusted.Line(u.Claim.Waits, maxShown))
	case u.Claim.State != csi.ClaimTaken:
		fmt.Fprintf(b, "the next step of its release (it is %s)", u.Claim.State)
	case u.Alloc == nil || u.Alloc.ClientTerminalStatus():
		b.WriteString("its release")
	case u.Alloc.ServerTerminalStatus():
		b.WriteString("the end of this allocation, which stops")
	default:
		b.WriteString("the end of this allocation")
	}
	return b.String()
}

// holder names the allocation, its job and its node.
func (u *CSIUse) holder() string {
	if u.Alloc == nil {
		return fmt.Sprintf("allocation %s, which was garbage collected, on node %s", u.ID, u.Claim.NodeID)
	}
	node := u.Alloc.NodeName
	if node == "" {
		node = u.Alloc.NodeID
	}
	return fmt.Sprintf("allocation %s of job %s on node %s", u.ID, u.Alloc.JobID, node)
}

// topologies describes the topologies of a volume. It is "" if the volume has none.
func topologies(list []*nomad.CSITopology) string {
	var out []string
	for _, t := range list {
		if t != nil && len(t.Segments) > 0 {
			out = append(out, segments(t))
		}
	}
	return strings.Join(out, " or ")
}

// segments describes a topology.
func segments(t *nomad.CSITopology) string {
	if t == nil {
		return ""
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
		out = append(out, k+"="+t.Segments[k])
	}
	return untrusted.Line(strings.Join(out, ","), maxShown)
}
