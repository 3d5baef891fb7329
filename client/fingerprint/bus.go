package fingerprint

import (
	"os"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
)

// buses returns the NUMA node of each PCI device, by its address. On a machine with one NUMA node, all devices are on
// it. On others, the kernel writes -1 for a device without a known NUMA node, and the device is left out.
func (h *Host) buses(topo *nomad.Topology) map[string]nomad.NUMANodeID {
	const dir = "/sys/bus/pci/devices"
	entries, err := os.ReadDir(h.path(dir))
	if err != nil || len(entries) == 0 {
		return nil // a machine without PCI
	}
	out := map[string]nomad.NUMANodeID{}
	for _, e := range entries {
		if len(topo.Nodes) == 1 {
			out[e.Name()] = nomad.NUMANodeID(topo.Nodes[0])
			continue
		}
		id, err := strconv.ParseUint(h.text(dir+"/"+e.Name()+"/numa_node"), 10, 8)
		if err == nil && slices.Contains(topo.Nodes, uint8(id)) {
			out[e.Name()] = nomad.NUMANodeID(id)
		}
	}
	return out
}
