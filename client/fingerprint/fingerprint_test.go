package fingerprint_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

var quiet = slog.New(slog.DiscardHandler)

// machine creates the files of a host and returns its root.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// hybrid has four cores of two grades on two sockets and two NUMA nodes.
var hybrid = map[string]string{
	"/sys/devices/system/cpu/online":                            "0-3",
	"/sys/devices/cpu_atom/cpus":                                "2-3",
	"/sys/devices/system/cpu/cpu0/cpufreq/base_frequency":       "3000000",
	"/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq":     "5000000",
	"/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq":     "4000000",
	"/sys/devices/system/cpu/cpu2/cpufreq/base_frequency":       "2000000",
	"/sys/devices/system/cpu/cpu2/topology/physical_package_id": "1",
	"/sys/devices/system/cpu/cpu3/topology/physical_package_id": "1",
	"/sys/devices/system/node/online":                           "0-1",
	"/sys/devices/system/node/node0/cpulist":                    "0-1",
	"/sys/devices/system/node/node1/cpulist":                    "2-3",
	"/sys/devices/system/node/node0/distance":                   "10 20",
	"/sys/devices/system/node/node1/distance":                   "20 10",
	"/proc/cpuinfo":                     "processor\t: 3\nmodel name\t: Test CPU\ncpu MHz\t\t: 1500.7",
	"/proc/meminfo":                     "MemTotal:        2048000 kB\nMemFree: 1 kB",
	"/etc/os-release":                   "ID=debian\nVERSION_ID=\"13\"",
	"/etc/machine-id":                   "ABCDEF",
	"/sys/fs/cgroup/cgroup.controllers": "cpu memory",
}

func TestAttributes(t *testing.T) {
	root := machine(t, hybrid)
	cfg := fingerprint.Config{Version: "2.0.6", Revision: "abc", AllocDir: t.TempDir(), Loopback: true,
		AdvertiseAddr: "127.0.0.1:4646", Reserved: fingerprint.Reserved{Cores: "3"}}
	facts := fingerprint.NewHost(root, cfg).Run(context.Background(), quiet)
	for name, want := range map[string]string{
		"cpu.modelname": "Test CPU", "cpu.numcores": "4", "cpu.numcores.performance": "2", "cpu.numcores.efficiency": "2",
		"cpu.frequency.performance": "4000", "cpu.frequency.efficiency": "2000", "cpu.reservablecores": "3",
		"cpu.totalcompute": "10500", "cpu.usablecompute": "9000", // 3000 + 4000 + 2000 + 1500
		"numa.node.count": "2", "numa.node0.cores": "0-1", "numa.node1.cores": "2-3",
		"memory.totalbytes": "2097152000", "os.name": "debian", "os.version": "13", "os.cgroups.version": "2",
		"unique.host_id": "abcdef", "kernel.name": "linux", "nomad.version": "2.0.6", "nomad.revision": "abc",
		"unique.advertise.address": "127.0.0.1:4646", "unique.network.ip-address": "127.0.0.1",
	} {
		if got := facts.Attributes[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	// The servers place jobs with services only on nodes with this attribute.
	if got, there := facts.Attributes["nomad.service_discovery"]; there {
		t.Errorf("nomad.service_discovery = %q on a client without native services", got)
	}
	cfg.Services = true
	if got := fingerprint.NewHost(root, cfg).Run(context.Background(), quiet).Attributes["nomad.service_discovery"]; got != "true" {
		t.Errorf("nomad.service_discovery = %q", got)
	}
	if _, there := facts.Attributes["cpu.frequency"]; there {
		t.Error("cpu.frequency is set on a machine with two grades")
	}
}

func TestBusAssociativity(t *testing.T) {
	pci := map[string]string{"0000:00:1f.0": "0", "0000:3b:00.0": "1", "10000:e1:00.0": "1", "0000:5e:00.0": "-1", "0000:5f:00.0": "7",
		"0000:60:00.0": "257", "0000:61:00.0": ""}
	for name, c := range map[string]struct {
		online string
		pci    map[string]string
		want   map[string]nomad.NUMANodeID
	}{
		"two nodes": {"0-1", pci, map[string]nomad.NUMANodeID{"0000:00:1f.0": 0, "0000:3b:00.0": 1, "10000:e1:00.0": 1}},
		"one node": {"0", map[string]string{"0000:00:1f.0": "-1", "0000:3b:00.0": "0"},
			map[string]nomad.NUMANodeID{"0000:00:1f.0": 0, "0000:3b:00.0": 0}},
		"no PCI": {"0-1", nil, nil},
	} {
		files := maps.Clone(hybrid)
		files["/sys/devices/system/node/online"] = c.online
		for address, node := range c.pci {
			files["/sys/bus/pci/devices/"+address+"/numa_node"] = node
		}
		topo, err := fingerprint.NewHost(machine(t, files), fingerprint.Config{}).Topology()
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(topo.BusAssociativity, c.want) {
			t.Errorf("%s: BusAssociativity = %v, want %v", name, topo.BusAssociativity, c.want)
		}
	}
}

func TestResources(t *testing.T) {
	root := machine(t, hybrid)
	cfg := fingerprint.Config{AllocDir: t.TempDir(), Loopback: true, MinDynamicPort: 20000, MaxDynamicPort: 32000, DiskMB: 500,
		Reserved: fingerprint.Reserved{CPU: 500, MemoryMB: 64, DiskMB: 10, Ports: " 22, 80", Agent: []int{80, 4646, 4647}}}
	node := &nomad.Node{Attributes: map[string]string{"keep": "me"}}
	fingerprint.NewHost(root, cfg).Run(context.Background(), quiet).Apply(cfg, node)
	r := node.NodeResources
	if r.Cpu.CpuShares != 10500 || r.Cpu.TotalCpuCores != 4 || !slices.Equal(r.Cpu.ReservableCpuCores, []uint16{0, 1, 2, 3}) {
		t.Errorf("Cpu = %+v", r.Cpu)
	}
	if r.Memory.MemoryMB != 2000 || r.Disk.DiskMB != 500 || r.MinDynamicPort != 20000 || r.MaxDynamicPort != 32000 {
		t.Errorf("NodeResources = %+v", r)
	}
	if len(r.Networks) == 0 || r.Networks[0].IP != "127.0.0.1" || r.Networks[0].Mode != "host" ||
		r.NodeNetworks[0].Addresses[0].Alias != "default" {
		t.Errorf("Networks = %+v", r.Networks)
	}
	want := &nomad.NodeReservedResources{
		Cpu: nomad.NodeReservedCpuResources{CpuShares: 500}, Memory: nomad.NodeReservedMemoryResources{MemoryMB: 64},
		Disk: nomad.NodeReservedDiskResources{DiskMB: 10}, Networks: nomad.NodeReservedNetworkResources{ReservedHostPorts: "22,80,4646,4647"},
	}
	if !reflect.DeepEqual(node.ReservedResources, want) {
		t.Errorf("ReservedResources = %+v", node.ReservedResources)
	}
	if node.Attributes["keep"] != "me" {
		t.Error("Apply() dropped an existing attribute")
	}
	if d := r.Processors.Topology.Distances; !reflect.DeepEqual(d, nomad.SLIT{{10, 20}, {20, 10}}) {
		t.Errorf("Distances = %v", d)
	}
}

func TestOperatorOverridesMeasurement(t *testing.T) {
	root := machine(t, hybrid)
	cfg := fingerprint.Config{AllocDir: t.TempDir(), Loopback: true, TotalCompute: 4000, MemoryMB: 100, ReservableCores: "0"}
	node := &nomad.Node{}
	fingerprint.NewHost(root, cfg).Run(context.Background(), quiet).Apply(cfg, node)
	if r := node.NodeResources; r.Cpu.CpuShares != 4000 || r.Memory.MemoryMB != 100 || !slices.Equal(r.Cpu.ReservableCpuCores, []uint16{0}) {
		t.Errorf("NodeResources = %+v", r)
	}
}

func TestAllowAndDeny(t *testing.T) {
	root := machine(t, hybrid)
	for _, c := range []struct {
		allow, deny []string
		want        []string
	}{
		{[]string{"arch"}, nil, []string{"cpu.arch"}},
		{[]string{"arch", "cgroup"}, []string{"arch"}, []string{"os.cgroups.version"}},
	} {
		cfg := fingerprint.Config{AllocDir: t.TempDir(), Allow: c.allow, Deny: c.deny}
		facts := fingerprint.NewHost(root, cfg).Run(context.Background(), quiet)
		var got []string
		for name := range facts.Attributes {
			got = append(got, name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("allow %v, deny %v: %v, want %v", c.allow, c.deny, got, c.want)
		}
	}
}

// A machine without readable files still gives a node, without the unknown attributes.
func TestEmptyMachine(t *testing.T) {
	cfg := fingerprint.Config{AllocDir: t.TempDir(), Loopback: true}
	node := &nomad.Node{}
	fingerprint.NewHost(t.TempDir(), cfg).Run(context.Background(), quiet).Apply(cfg, node)
	if node.NodeResources == nil || node.NodeResources.Processors.Topology == nil || node.Attributes["cpu.arch"] == "" {
		t.Errorf("node = %+v", node)
	}
}

// The real files of this machine.
func TestThisMachine(t *testing.T) {
	cfg := fingerprint.Config{Version: "2.0.6", AllocDir: t.TempDir()}
	var facts fingerprint.Facts
	testpace.Once(t, 100*time.Millisecond, "a look at this machine", func() time.Duration {
		begun := time.Now()
		facts = fingerprint.NewHost("/", cfg).Run(context.Background(), quiet)
		return time.Since(begun)
	})
	for _, name := range []string{"cpu.arch", "cpu.numcores", "cpu.totalcompute", "memory.totalbytes", "kernel.version", "os.signals",
		"unique.hostname", "unique.storage.bytestotal", "unique.network.ip-address", "os.cgroups.version"} {
		if facts.Attributes[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestParseCPUSet(t *testing.T) {
	for list, want := range map[string][]uint16{
		"": nil, "0": {0}, "0-3,7": {0, 1, 2, 3, 7}, " 3 , 1-2 ,2": {1, 2, 3}, "5-5": {5},
	} {
		if got, err := fingerprint.ParseCPUSet(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseCPUSet(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"x", "3-1", "0-99999", "-1", "1-", "0-4294967295"} {
		if got, err := fingerprint.ParseCPUSet(list); err == nil {
			t.Errorf("ParseCPUSet(%q) = %v, want an error", list, got)
		}
	}
}
