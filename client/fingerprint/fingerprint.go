// Package fingerprint finds out what a node is and has: its architecture, cores,
// memory, disk, networks, operating system, kernel powers. What it finds are the
// attributes of compat/task-runtime.tsv and the node's resources.
//
// Each fingerprinter is one row of a table: a name, which the options
// fingerprint.allowlist and fingerprint.denylist use, and a function from the
// host to Facts. They run at the same time, read files and ask the kernel, and
// start no process; together they take milliseconds. A fingerprinter that finds
// nothing is silent: the attribute is absent.
//
// It keeps no state and leaves no goroutine. Drivers tell of themselves
// (client/driverset).
package fingerprint

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Config is what the operator said about the node.
type Config struct {
	Version         string // of this program
	Revision        string
	AdvertiseAddr   string // unique.advertise.address, "" when none
	AllocDir        string // whose disk is measured
	Interface       string // "" for the one of the default route
	Loopback        bool   // -dev: the default interface is the loopback one
	AddressFamily   string // "ipv4", "ipv6", "" for both
	SpeedMbits      int    // 0: ask the kernel
	SkipLinkLocal   bool   // leave link-local addresses out
	TotalCompute    int    // MHz, 0: measured
	MemoryMB        int    // 0: measured
	DiskMB          int    // 0: measured
	ReservableCores string // cpuset list, "" for all
	Reserved        Reserved
	MinDynamicPort  int
	MaxDynamicPort  int
	Allow, Deny     []string
}

// Reserved is what tasks cannot have.
type Reserved struct {
	CPU      int    // MHz
	Cores    string // cpuset list; when set, CPU is what these cores add up to
	MemoryMB int
	DiskMB   int
	Ports    string // such as "22,80,8500-8600"
}

// Facts is what fingerprinters find. Zero fields say nothing.
type Facts struct {
	Attributes   map[string]string
	Topology     *nomad.Topology
	MemoryMB     int64
	DiskMB       int64
	Networks     nomad.Networks
	NodeNetworks []*nomad.NodeNetworkResource
}

// set adds an attribute unless the value is empty.
func (f *Facts) set(name, value string) {
	if value == "" {
		return
	}
	if f.Attributes == nil {
		f.Attributes = map[string]string{}
	}
	f.Attributes[name] = value
}

// merge adds what g knows.
func (f *Facts) merge(g Facts) {
	for k, v := range g.Attributes {
		f.set(k, v)
	}
	if g.Topology != nil {
		f.Topology = g.Topology
	}
	f.MemoryMB += g.MemoryMB
	f.DiskMB += g.DiskMB
	f.Networks = append(f.Networks, g.Networks...)
	f.NodeNetworks = append(f.NodeNetworks, g.NodeNetworks...)
}

// Host is a machine seen through its /proc, /sys and /etc.
type Host struct {
	root string
	cfg  Config
}

// NewHost looks at the machine whose root directory is root, "/" for this one.
func NewHost(root string, cfg Config) *Host { return &Host{root: root, cfg: cfg} }

// row is one fingerprinter.
type row struct {
	name string
	find func(*Host) (Facts, error)
}

// table lists the fingerprinters of this platform. Names are those of
// compat/task-runtime.tsv, section fingerprinters.
var table = []row{
	{"arch", arch},
	{"cpu", cpu},
	{"memory", memory},
	{"storage", storage},
	{"network", network},
	{"host", host},
	{"landlock", landlockABI},
	{"cgroup", cgroupVersion},
	{"signal", signals},
	{"nomad", program},
}

// Names returns the names of all fingerprinters, sorted.
func Names() []string {
	var names []string
	for _, r := range table {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// Run asks all allowed fingerprinters at once and merges what they found.
func (h *Host) Run(ctx context.Context, log *slog.Logger) Facts {
	found := make([]Facts, len(table))
	var wg sync.WaitGroup
	for i, r := range table {
		if !h.cfg.allows(r.name) || ctx.Err() != nil {
			continue
		}
		wg.Go(func() {
			facts, err := r.find(h)
			if err != nil {
				log.Warn("fingerprint failed", "fingerprinter", r.name, "err", err)
			}
			found[i] = facts
		})
	}
	wg.Wait()
	var all Facts
	for _, f := range found {
		all.merge(f)
	}
	return all
}

func (c Config) allows(name string) bool {
	if slices.Contains(c.Deny, name) {
		return false
	}
	return len(c.Allow) == 0 || slices.Contains(c.Allow, name)
}

// path returns where the file of an absolute name is on this host.
func (h *Host) path(name string) string { return filepath.Join(h.root, name) }

// Apply writes the facts into the node: attributes beside those it has,
// resources, and what the operator reserved.
func (f Facts) Apply(cfg Config, n *nomad.Node) {
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	maps.Copy(n.Attributes, f.Attributes)
	topo := f.Topology
	if topo == nil {
		topo = &nomad.Topology{OverrideTotalCompute: nomad.MHz(cfg.TotalCompute)}
	}
	n.NodeResources = &nomad.NodeResources{
		Cpu: nomad.LegacyNodeCpuResources{
			CpuShares:          int64(totalCompute(topo)),
			TotalCpuCores:      uint16(len(topo.Cores)),
			ReservableCpuCores: usableCores(topo),
		},
		Processors:     nomad.NodeProcessorResources{Topology: topo},
		Memory:         nomad.NodeMemoryResources{MemoryMB: f.MemoryMB},
		Disk:           nomad.NodeDiskResources{DiskMB: f.DiskMB},
		NodeNetworks:   f.NodeNetworks,
		Networks:       f.Networks,
		MinDynamicPort: cfg.MinDynamicPort,
		MaxDynamicPort: cfg.MaxDynamicPort,
	}
	n.ReservedResources = &nomad.NodeReservedResources{
		Cpu: nomad.NodeReservedCpuResources{
			CpuShares:        int64(reservedCompute(topo)),
			ReservedCpuCores: disabledCores(topo),
		},
		Memory:   nomad.NodeReservedMemoryResources{MemoryMB: int64(cfg.Reserved.MemoryMB)},
		Disk:     nomad.NodeReservedDiskResources{DiskMB: int64(cfg.Reserved.DiskMB)},
		Networks: nomad.NodeReservedNetworkResources{ReservedHostPorts: strings.TrimSpace(cfg.Reserved.Ports)},
	}
}
