// Package fingerprint detects the properties of a node: its architecture, cores, memory, disk,
// networks, operating system and kernel features. The results are the node's attributes, named
// as in Nomad 2.0, and its resources.
//
// Each fingerprinter is one row of a table: a name, for the options fingerprint.allowlist and
// fingerprint.denylist, and a function that returns Facts. They run in parallel, read files and
// make system calls; together they take milliseconds. Only the one for CNI plugins starts processes, to
// get their versions. An attribute that
// cannot be detected is absent.
//
// The package keeps no state, and its goroutines end with Run. Drivers fingerprint themselves
// (client/driverset).
package fingerprint

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Config configures the fingerprinters.
type Config struct {
	Version         string // of this program
	Revision        string
	AdvertiseAddr   string // unique.advertise.address, may be empty
	AllocDir        string // on the disk that is measured
	Services        bool   // native services are enabled
	ConsulAPI       string // address of the agent's Consul API, "" for none
	Interface       string // "" for the interface of the default route
	Loopback        bool   // -dev: use the loopback interface by default
	AddressFamily   string // "ipv4", "ipv6", "" for both
	SpeedMbits      int    // 0: ask the kernel
	SkipLinkLocal   bool   // ignore link-local addresses
	TotalCompute    int    // MHz, 0: measured
	MemoryMB        int    // 0: measured
	DiskMB          int    // 0: measured
	ReservableCores string // cpuset list, "" for all
	Reserved        Reserved
	HostNetworks    []HostNetwork
	Networks        Networks
	MinDynamicPort  int
	MaxDynamicPort  int
	Allow, Deny     []string
}

// HostNetwork names the addresses of the machine that are in one of the prefixes and on the interface. Without
// prefixes, or without an interface, all are.
type HostNetwork struct {
	Name          string
	CIDR          string // Within, as configured
	Within        []netip.Prefix
	Interface     string
	ReservedPorts string // such as "22,80"
}

// Reserved holds the resources that are not available to tasks.
type Reserved struct {
	CPU      int    // MHz
	Cores    string // cpuset list; if set, it replaces CPU
	MemoryMB int
	DiskMB   int
	Ports    string // such as "22,80,8500-8600"
	// Agent are the ports of the agent itself: HTTP, RPC and gossip. They are reserved like Ports, so that no
	// allocation gets one and receives the requests of operators with their tokens.
	Agent []int
}

// ports returns all reserved ports in the form of Ports.
func (r *Reserved) ports() string {
	list := strings.Split(r.Ports, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	for _, p := range r.Agent {
		if text := strconv.Itoa(p); p > 0 && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), ",")
}

// Facts are the results of fingerprinters. Zero fields are unknown.
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

// merge adds the facts of g.
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

// Host is a machine, read through its /proc, /sys and /etc. Run and Refresh are not called concurrently.
type Host struct {
	root  string
	cfg   Config
	found []Facts // the last result of each fingerprinter
}

// NewHost returns the machine with the given root directory, "/" for this one.
func NewHost(root string, cfg Config) *Host {
	return &Host{root: root, cfg: cfg, found: make([]Facts, len(table))}
}

// row is one fingerprinter.
type row struct {
	name  string
	find  func(*Host) (Facts, error)
	again bool // also after SIGHUP (compat/client-runtime.md)
}

// table lists the fingerprinters of this platform, named as in Nomad 2.0. pci is ours.
var table = []row{
	{name: "arch", find: arch},
	{name: "cpu", find: cpu},
	{name: "memory", find: memory, again: true},
	{name: "storage", find: storage},
	{name: "network", find: network, again: true},
	{name: "bridge", find: bridge},
	{name: "cni", find: cniNetworks, again: true},
	{name: "plugins_cni", find: cniPlugins, again: true},
	{name: "host", find: host},
	{name: "landlock", find: landlockABI},
	{name: "cgroup", find: cgroupVersion},
	{name: "signal", find: signals},
	{name: "pci", find: pci},
	{name: "nomad", find: program},
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

// Run runs all allowed fingerprinters in parallel and merges their results.
func (h *Host) Run(ctx context.Context, log *slog.Logger) Facts {
	return h.run(ctx, log, func(row) bool { return true })
}

// Refresh runs the fingerprinters of what can change while an agent runs, such as the CNI networks. It returns all facts.
// A fingerprinter that fails without any result keeps its earlier one.
func (h *Host) Refresh(ctx context.Context, log *slog.Logger) Facts {
	return h.run(ctx, log, func(r row) bool { return r.again })
}

func (h *Host) run(ctx context.Context, log *slog.Logger, selected func(row) bool) Facts {
	var wg sync.WaitGroup
	for i, r := range table {
		if !selected(r) || !h.cfg.Allows(r.name) || ctx.Err() != nil {
			continue
		}
		wg.Go(func() {
			facts, err := r.find(h)
			if err != nil {
				log.Warn("fingerprint failed", "fingerprinter", r.name, "err", err)
			}
			if err == nil || !facts.empty() {
				h.found[i] = facts
			}
		})
	}
	wg.Wait()
	var all Facts
	for _, f := range h.found {
		all.merge(f)
	}
	return all
}

// empty reports whether nothing is known.
func (f Facts) empty() bool {
	return len(f.Attributes) == 0 && f.Topology == nil && f.MemoryMB == 0 && f.DiskMB == 0 && len(f.Networks) == 0 && len(f.NodeNetworks) == 0
}

// Allows reports whether the lists of the configuration allow a fingerprinter.
func (c Config) Allows(name string) bool {
	if slices.Contains(c.Deny, name) {
		return false
	}
	return len(c.Allow) == 0 || slices.Contains(c.Allow, name)
}

// path returns the path of a file on this host.
func (h *Host) path(name string) string { return filepath.Join(h.root, name) }

// Apply sets the facts in the node: it adds attributes and replaces the resources, except devices, and
// the reserved resources.
func (f Facts) Apply(cfg Config, n *nomad.Node) {
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	maps.Copy(n.Attributes, f.Attributes)
	topo := f.Topology
	if topo == nil {
		topo = &nomad.Topology{OverrideTotalCompute: nomad.MHz(cfg.TotalCompute)}
	}
	var devices []*nomad.NodeDeviceResource
	if n.NodeResources != nil {
		devices = n.NodeResources.Devices
	}
	n.NodeResources = &nomad.NodeResources{
		Devices: devices,
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
	n.HostNetworks = cfg.hostNetworks()
	n.ReservedResources = &nomad.NodeReservedResources{
		Cpu: nomad.NodeReservedCpuResources{
			CpuShares:        int64(reservedCompute(topo)),
			ReservedCpuCores: disabledCores(topo),
		},
		Memory:   nomad.NodeReservedMemoryResources{MemoryMB: int64(cfg.Reserved.MemoryMB)},
		Disk:     nomad.NodeReservedDiskResources{DiskMB: int64(cfg.Reserved.DiskMB)},
		Networks: nomad.NodeReservedNetworkResources{ReservedHostPorts: cfg.Reserved.ports()},
	}
}
