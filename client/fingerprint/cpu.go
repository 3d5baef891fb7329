package fingerprint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// performance is the grade of a performance core, as opposed to an efficiency core.
const performance nomad.CoreGrade = true

// cpu returns the processor topology and its total compute.
func cpu(h *Host) (Facts, error) {
	var f Facts
	topo, model, err := h.topology()
	if err != nil {
		return f, err
	}
	f.Topology = topo
	f.set("cpu.modelname", model)
	total := totalCompute(topo)
	f.set("cpu.totalcompute", strconv.FormatUint(uint64(total), 10))
	f.set("cpu.usablecompute", strconv.FormatUint(uint64(total-min(total, reservedCompute(topo))), 10))
	f.set("cpu.numcores", strconv.Itoa(len(topo.Cores)))
	f.set("cpu.reservablecores", strconv.Itoa(len(usableCores(topo))))
	setGrades(&f, topo)
	f.set("numa.node.count", strconv.Itoa(len(topo.Nodes)))
	for _, node := range topo.Nodes {
		f.set(fmt.Sprintf("numa.node%d.cores", node), cpuset(coresOf(topo, nomad.NUMANodeID(node))))
	}
	return f, nil
}

// setGrades sets core counts and frequencies, on hybrid machines for each grade.
func setGrades(f *Facts, topo *nomad.Topology) {
	var fast, slow int
	var fastMHz, slowMHz nomad.MHz
	for _, c := range topo.Cores {
		if c.Grade == performance {
			fast, fastMHz = fast+1, max(fastMHz, speed(c))
		} else {
			slow, slowMHz = slow+1, max(slowMHz, speed(c))
		}
	}
	if slow == 0 {
		f.set("cpu.frequency", strconv.FormatUint(uint64(fastMHz), 10))
		return
	}
	f.set("cpu.numcores.performance", strconv.Itoa(fast))
	f.set("cpu.numcores.efficiency", strconv.Itoa(slow))
	f.set("cpu.frequency.performance", strconv.FormatUint(uint64(fastMHz), 10))
	f.set("cpu.frequency.efficiency", strconv.FormatUint(uint64(slowMHz), 10))
}

// Topology returns the processors of the machine.
func (h *Host) Topology() (*nomad.Topology, error) {
	t, _, err := h.topology()
	return t, err
}

// topology reads the online processors and their NUMA nodes.
func (h *Host) topology() (*nomad.Topology, string, error) {
	online, err := h.cpulist("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, "", fmt.Errorf("list processors: %w", err)
	}
	reserved, err := ParseCPUSet(h.cfg.Reserved.Cores)
	if err != nil {
		return nil, "", fmt.Errorf("reserved cores: %w", err)
	}
	reservable, err := ParseCPUSet(h.cfg.ReservableCores)
	if err != nil {
		return nil, "", fmt.Errorf("reservable cores: %w", err)
	}
	slow, _ := h.cpulist("/sys/devices/cpu_atom/cpus") // exists on hybrid machines only
	guess, model := h.cpuinfo()
	topo := &nomad.Topology{
		OverrideTotalCompute:   nomad.MHz(h.cfg.TotalCompute),
		OverrideWitholdCompute: nomad.MHz(h.cfg.Reserved.CPU),
	}
	if len(reserved) > 0 {
		topo.OverrideWitholdCompute = 0
	}
	nodes := h.numaNodes(topo, online)
	topo.BusAssociativity = h.buses(topo)
	for _, id := range online {
		dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d", id)
		topo.Cores = append(topo.Cores, nomad.Core{
			SocketID:   nomad.SocketID(h.number(dir + "/topology/physical_package_id")),
			NodeID:     nodes[id],
			ID:         nomad.CoreID(id),
			Grade:      nomad.CoreGrade(!has(slow, id)),
			Disable:    has(reserved, id) || len(reservable) > 0 && !has(reservable, id),
			BaseSpeed:  nomad.MHz(h.number(dir+"/cpufreq/base_frequency") / 1000),
			MaxSpeed:   nomad.MHz(h.number(dir+"/cpufreq/cpuinfo_max_freq") / 1000),
			GuessSpeed: guess[id],
		})
	}
	return topo, model, nil
}

// numaNodes sets the nodes and distances of the topology and returns the node of each core. A
// machine without NUMA information has one node.
func (h *Host) numaNodes(topo *nomad.Topology, online []uint16) map[uint16]nomad.NUMANodeID {
	of := map[uint16]nomad.NUMANodeID{}
	ids, err := h.cpulist("/sys/devices/system/node/online")
	if err != nil || len(ids) == 0 {
		topo.Nodes, topo.Distances = []uint8{0}, nomad.SLIT{{10}}
		return of
	}
	for _, id := range ids {
		dir := fmt.Sprintf("/sys/devices/system/node/node%d", id)
		topo.Nodes = append(topo.Nodes, uint8(id))
		cores, _ := h.cpulist(dir + "/cpulist") // empty for a node with memory only
		for _, c := range cores {
			of[c] = nomad.NUMANodeID(id)
		}
		var costs []nomad.Cost
		for _, word := range strings.Fields(h.text(dir + "/distance")) {
			n, _ := strconv.ParseUint(word, 10, 8)
			costs = append(costs, nomad.Cost(n))
		}
		topo.Distances = append(topo.Distances, costs)
	}
	return of
}

// cpuinfo returns the current speed of each processor, and the model.
func (h *Host) cpuinfo() (speeds map[uint16]nomad.MHz, model string) {
	speeds = map[uint16]nomad.MHz{}
	file, err := os.Open(h.path("/proc/cpuinfo"))
	if err != nil {
		return speeds, ""
	}
	defer file.Close()
	var id uint16
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, val, _ := strings.Cut(lines.Text(), ":")
		val = strings.TrimSpace(val)
		switch strings.TrimSpace(key) {
		case "processor":
			n, _ := strconv.ParseUint(val, 10, 16)
			id = uint16(n)
		case "model name":
			model = val
		case "cpu MHz":
			mhz, _ := strconv.ParseFloat(val, 64)
			speeds[id] = nomad.MHz(mhz)
		}
	}
	return speeds, model
}

// speed returns the speed of a core: the base speed, else the maximum, else the current one. An
// unknown speed counts as 1 GHz, so that the node is usable.
func speed(c nomad.Core) nomad.MHz {
	for _, s := range []nomad.MHz{c.BaseSpeed, c.MaxSpeed, c.GuessSpeed} {
		if s > 0 {
			return s
		}
	}
	return 1000
}

// totalCompute returns the configured total, or else the sum of all cores.
func totalCompute(t *nomad.Topology) nomad.MHz {
	if t.OverrideTotalCompute > 0 {
		return t.OverrideTotalCompute
	}
	var sum nomad.MHz
	for _, c := range t.Cores {
		sum += speed(c)
	}
	return sum
}

// reservedCompute returns the compute that is reserved, and so not available to tasks.
func reservedCompute(t *nomad.Topology) nomad.MHz {
	sum := t.OverrideWitholdCompute
	for _, c := range t.Cores {
		if c.Disable {
			sum += speed(c)
		}
	}
	return sum
}

func usableCores(t *nomad.Topology) []uint16 {
	return pick(t, func(c nomad.Core) bool { return !c.Disable })
}

func disabledCores(t *nomad.Topology) []uint16 {
	return pick(t, func(c nomad.Core) bool { return c.Disable })
}

func coresOf(t *nomad.Topology, node nomad.NUMANodeID) []uint16 {
	return pick(t, func(c nomad.Core) bool { return c.NodeID == node })
}

func pick(t *nomad.Topology, want func(nomad.Core) bool) []uint16 {
	var ids []uint16
	for _, c := range t.Cores {
		if want(c) {
			ids = append(ids, uint16(c.ID))
		}
	}
	return ids
}

// cpulist parses a file in the kernel's cpu list format.
func (h *Host) cpulist(name string) ([]uint16, error) {
	b, err := os.ReadFile(h.path(name))
	if err != nil {
		return nil, err
	}
	return ParseCPUSet(strings.TrimSpace(string(b)))
}

// text returns the trimmed content of a file, or "" if it cannot be read.
func (h *Host) text(name string) string {
	b, err := os.ReadFile(filepath.Clean(h.path(name)))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number in a file, or 0.
func (h *Host) number(name string) int64 {
	n, err := strconv.ParseInt(h.text(name), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
