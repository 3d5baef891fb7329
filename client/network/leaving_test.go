package network_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// A task that leaves the network of its group is refused where the group is isolated, by the job or by the node.
func TestLeaving(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	path := n.space(otherID)
	for name, c := range map[string]struct {
		node, group, limited bool
		mode                 string
		refused              bool
	}{
		"isolated by the node": {node: true, mode: "host", refused: true}, "isolated by the job": {group: true, mode: "bridge", refused: true},
		"egress": {limited: true, mode: "host", refused: true}, "by a reference": {node: true, mode: "${meta.mode}", refused: true},
		"no network": {node: true, mode: "none"}, "that of the group": {node: true}, "not isolated": {mode: "host"},
	} {
		t.Run(name, func(t *testing.T) {
			n.cfg.Bridge.Isolate = c.node
			n.restart()
			r := request(otherID, path)
			r.Network.Isolate = c.group
			if c.limited {
				r.Network.Egress = &nomad.NetworkEgress{}
			}
			task := &nomad.Task{Name: "t", Config: map[string]any{"network_mode": c.mode}}
			r.Alloc.Job = &nomad.Job{ID: "web", TaskGroups: []*nomad.TaskGroup{{Name: "web", Tasks: []*nomad.Task{task}}}}
			_, err := n.set.Connect(t.Context(), r)
			if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "the group is isolated on the bridge") {
				t.Errorf("Connect() = %v, want an error: %t", err, c.refused)
			}
			if err := n.set.Disconnect(t.Context(), otherID); err != nil {
				t.Fatal(err)
			}
		})
	}
}
