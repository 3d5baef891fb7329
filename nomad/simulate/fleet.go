package simulate

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/version"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// MaxNodes is the maximum number of nodes of a fleet.
const MaxNodes = 100_000

// NodeSet describes Count equal nodes of a synthetic fleet. Zero values of the other fields mean the defaults of New.
type NodeSet struct {
	Count       int
	Class       string
	Datacenters []string // the nodes are distributed over them in turn
	Pool        string
	CPU         int // MHz
	Cores       int
	MemoryMB    int
	DiskMB      int
	Drivers     []string // names of built-in kinds; none means all
	Attributes  map[string]string
	Meta        map[string]string
}

// Defaults of a node.
const (
	defaultCPU    = 4000
	defaultCores  = 4
	defaultMemory = 8192
	defaultDisk   = 100_000
	// synthABI is the Landlock ABI of synthetic nodes.
	synthABI = 7
)

// New returns a cluster without jobs. Its nodes run Linux and this version of the program. Each has one network
// interface and a bridge. Drivers default to all built-in kinds of table.
func New(sets []NodeSet, table kinds.Table) (*Cluster, error) {
	total := 0
	for i, s := range sets {
		if err := s.check(table); err != nil {
			return nil, fmt.Errorf("nodes %d (class %q): %w", i+1, s.Class, err)
		}
		if total += s.Count; total > MaxNodes {
			return nil, fmt.Errorf("the fleet has more than %d nodes", MaxNodes)
		}
	}
	store := state.New(slog.New(slog.DiscardHandler))
	filled := &Cluster{fsm: newFSM(store), index: store.Snapshot().Index()}
	n := 0
	for _, s := range sets {
		for i := range s.Count {
			n++
			if err := filled.apply(message.NodeRegisterRequestType,
				&message.NodeRegisterRequest{Node: s.node(n, i, table), CreateNodePool: true}); err != nil {
				return nil, fmt.Errorf("register node %d: %w", n, err)
			}
		}
	}
	c, err := newCluster(store, table)
	if err == nil {
		c.synthetic = true
	}
	return c, err
}

// check returns an error for the first invalid value of a set.
func (s *NodeSet) check(table kinds.Table) error {
	for _, v := range []struct {
		key string
		n   int
	}{{"count", s.Count}, {"cpu", s.CPU}, {"cores", s.Cores}, {"memory", s.MemoryMB}, {"disk", s.DiskMB}} {
		if v.n < 0 {
			return fmt.Errorf("%s is %d: it must not be negative", v.key, v.n)
		}
	}
	if s.Cores > 65_535 {
		return fmt.Errorf("cores is %d: it must be at most 65535", s.Cores)
	}
	if s.Pool == nomad.NodePoolAll {
		return fmt.Errorf("node_pool is %q, which no node can join", s.Pool)
	}
	for _, d := range s.Drivers {
		if table[d] == nil {
			return fmt.Errorf("unknown driver %q: the drivers are %s", d, strings.Join(slices.Sorted(maps.Keys(table)), ", "))
		}
	}
	return nil
}

// or returns v, or the default if it is 0.
func or(v, otherwise int) int64 {
	if v == 0 {
		return int64(otherwise)
	}
	return int64(v)
}

// node returns node number i of the set. n is its number in the fleet.
func (s *NodeSet) node(n, i int, table kinds.Table) *nomad.Node {
	dc, name := "dc1", s.Class
	if len(s.Datacenters) > 0 {
		dc = s.Datacenters[i%len(s.Datacenters)]
	}
	if name == "" {
		name = "node"
	}
	out := &nomad.Node{
		ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n), SecretID: fmt.Sprintf("%08x-0000-4000-8001-%012x", n, n),
		Name: fmt.Sprintf("%s-%d", name, n), Datacenter: dc, NodeClass: s.Class, NodePool: s.Pool,
		Status: nomad.NodeStatusReady, SchedulingEligibility: nomad.NodeSchedulingEligible,
		Meta: maps.Clone(s.Meta), Drivers: map[string]*nomad.DriverInfo{}, NodeResources: s.resources(),
		Attributes: map[string]string{"kernel.name": "linux", "os.name": "debian", "cpu.arch": "amd64",
			"cpu.numcores":  strconv.FormatInt(or(s.Cores, defaultCores), 10),
			"nomad.version": version.Number, "nomad.service_discovery": "true",
			"os.signals": "SIGABRT,SIGALRM,SIGCONT,SIGHUP,SIGINT,SIGQUIT,SIGTERM,SIGUSR1,SIGUSR2,SIGWINCH"},
	}
	names := s.Drivers
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(table))
	}
	for _, d := range names {
		out.Drivers[d] = &nomad.DriverInfo{Detected: true, Healthy: true}
		maps.Copy(out.Attributes, driverAttributes(d, table[d]))
	}
	maps.Copy(out.Attributes, bridgeAttributes())
	maps.Copy(out.Attributes, s.Attributes)
	out.ComputedClass = nodeclass.Of(out)
	return out
}

// bridgeAttributes returns the node attributes of the bridge: the CNI plugins that it needs.
func bridgeAttributes() map[string]string {
	out := map[string]string{nomad.AttrBridgeIsolation: "true"}
	for _, name := range []string{"bridge", "firewall", "host-local", "loopback", "portmap"} {
		out["plugins.cni.version."+name] = "1.6.0"
	}
	return out
}

// driverAttributes returns the node attributes of a driver instance without restrictions.
func driverAttributes(name string, k *drivers.Kind) map[string]string {
	out := map[string]string{drivers.Attribute(name, ""): "1", drivers.Attribute(name, drivers.BackendKey): name}
	if k.Unveils {
		out[drivers.Attribute(name, drivers.UnveilKey)] = "true"
	}
	if k.Least != nil {
		out[drivers.Attribute(name, drivers.LandlockKey)] = strconv.Itoa(synthABI)
	}
	if k.Isolates != nil {
		out[drivers.Attribute(name, drivers.LevelKey)] = drivers.LevelStrict.String()
	}
	if k.Privileged() {
		out[drivers.Attribute(name, drivers.PrivilegedKey)] = "true"
	}
	return out
}

func (s *NodeSet) resources() *nomad.NodeResources {
	cores := int(or(s.Cores, defaultCores))
	cpu := nomad.LegacyNodeCpuResources{CpuShares: or(s.CPU, defaultCPU), TotalCpuCores: uint16(cores)}
	for id := range cores {
		cpu.ReservableCpuCores = append(cpu.ReservableCpuCores, uint16(id))
	}
	addresses := []nomad.NodeNetworkAddress{{Alias: "default", Address: "192.0.2.1", Family: nomad.NodeNetworkAF_IPv4}}
	return &nomad.NodeResources{
		Cpu:    cpu,
		Memory: nomad.NodeMemoryResources{MemoryMB: or(s.MemoryMB, defaultMemory)},
		Disk:   nomad.NodeDiskResources{DiskMB: or(s.DiskMB, defaultDisk)},
		NodeNetworks: []*nomad.NodeNetworkResource{{Mode: "host", Device: "eth0", Addresses: addresses},
			{Mode: "bridge", Device: "nomad"}},
	}
}
