package csi

import "github.com/open-nomad/open-nomad/nomad"

// AccessibleFrom reports whether the volume is accessible from a node with the topology: the node has all segments of one
// of the volume's topologies. A volume without topologies is accessible from every node. A node without a topology, nil,
// reaches no volume that has one.
//
// Topologies without segments are ignored, as are nil ones: records of Nomad 2.0 contain them.
func (v *Volume) AccessibleFrom(node *nomad.CSITopology) bool {
	limited := false
	for _, t := range v.Topologies {
		if t == nil || len(t.Segments) == 0 {
			continue
		}
		limited = true
		if contains(node, t) {
			return true
		}
	}
	return !limited
}

// contains reports whether all segments of a topology equal those of the node.
func contains(node, t *nomad.CSITopology) bool {
	if node == nil {
		return false
	}
	for key, value := range t.Segments {
		if has, ok := node.Segments[key]; !ok || has != value {
			return false
		}
	}
	return true
}
