package feasible_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

func node() *nomad.Node {
	return &nomad.Node{ID: "n", NodeResources: &nomad.NodeResources{
		Cpu:    nomad.LegacyNodeCpuResources{CpuShares: 1000, TotalCpuCores: 2, ReservableCpuCores: []uint16{0, 1}},
		Memory: nomad.NodeMemoryResources{MemoryMB: 1000},
		Disk:   nomad.NodeDiskResources{DiskMB: 1000},
		NodeNetworks: []*nomad.NodeNetworkResource{{Mode: "host", Addresses: []nomad.NodeNetworkAddress{
			{Alias: "default", Address: "127.0.0.1"}, {Alias: "default", Address: "::1"},
			{Alias: "public", Address: "1.2.3.4", ReservedPorts: "80"},
		}}},
	}}
}

func alloc(id string, cpu, mem, disk int64) *nomad.Allocation {
	return &nomad.Allocation{ID: id, AllocatedResources: &nomad.AllocatedResources{
		Tasks: map[string]*nomad.AllocatedTaskResources{"t": {
			Cpu: nomad.AllocatedCpuResources{CpuShares: cpu}, Memory: nomad.AllocatedMemoryResources{MemoryMB: mem},
		}},
		Shared: nomad.AllocatedSharedResources{DiskMB: disk},
	}}
}

func withCores(a *nomad.Allocation, cores ...uint16) *nomad.Allocation {
	a.AllocatedResources.Tasks["t"].Cpu.ReservedCores = cores
	return a
}

func withPort(a *nomad.Allocation, ip string, port int) *nomad.Allocation {
	a.AllocatedResources.Shared.Ports = append(a.AllocatedResources.Shared.Ports,
		nomad.AllocatedPortMapping{Label: "p", HostIP: ip, Value: port})
	return a
}

func withDevice(a *nomad.Allocation, ids ...string) *nomad.Allocation {
	a.AllocatedResources.Tasks["t"].Devices = []*nomad.AllocatedDeviceResource{{Vendor: "v", Type: "gpu", Name: "m", DeviceIDs: ids}}
	return a
}

func TestAllocsFit(t *testing.T) {
	over := alloc("over", 5000, 1, 1)
	over.ClientStatus = nomad.AllocClientStatusFailed
	stopped := alloc("stopped", 1, 1, 1)
	stopped.DesiredStatus = nomad.AllocDesiredStatusStop
	cases := []struct {
		name   string
		edit   func(*nomad.Node)
		allocs []*nomad.Allocation
		want   string
	}{
		{"none", nil, nil, ""},
		{"exactly", nil, []*nomad.Allocation{alloc("a", 600, 500, 900), alloc("b", 400, 500, 100)}, ""},
		{"those that their client has ended do not count", nil, []*nomad.Allocation{over, alloc("a", 1000, 1000, 1000)}, ""},
		{"one that is to stop counts until then", nil, []*nomad.Allocation{stopped, alloc("a", 1000, 1000, 1000)}, "cpu"},
		{"one twice counts once", nil, []*nomad.Allocation{alloc("a", 600, 1, 1), alloc("a", 600, 1, 1)}, ""},
		{"cpu", nil, []*nomad.Allocation{alloc("a", 600, 1, 1), alloc("b", 401, 1, 1)}, "cpu"},
		{"memory", nil, []*nomad.Allocation{alloc("a", 1, 1001, 1)}, "memory"},
		{"disk", nil, []*nomad.Allocation{alloc("a", 1, 1, 1001)}, "disk"},
		{"reserved by the node", func(n *nomad.Node) {
			n.ReservedResources = &nomad.NodeReservedResources{Memory: nomad.NodeReservedMemoryResources{MemoryMB: 100}}
		}, []*nomad.Allocation{alloc("a", 1, 901, 1)}, "memory"},
		{"same core", nil, []*nomad.Allocation{withCores(alloc("a", 1, 1, 1), 0), withCores(alloc("b", 1, 1, 1), 0)}, "cores"},
		{"other cores", nil, []*nomad.Allocation{withCores(alloc("a", 1, 1, 1), 0), withCores(alloc("b", 1, 1, 1), 1)}, ""},
		{"unknown core", nil, []*nomad.Allocation{withCores(alloc("a", 1, 1, 1), 7)}, "cores"},
		{"same port", nil, []*nomad.Allocation{withPort(alloc("a", 1, 1, 1), "127.0.0.1", 80), withPort(alloc("b", 1, 1, 1), "127.0.0.1", 80)},
			"network: port collision"},
		{"same port, other address", nil,
			[]*nomad.Allocation{withPort(alloc("a", 1, 1, 1), "127.0.0.1", 80), withPort(alloc("b", 1, 1, 1), "::1", 80)}, ""},
		{"same port, two networks of one address", func(n *nomad.Node) {
			net := n.NodeResources.NodeNetworks[0]
			net.Addresses = append(net.Addresses, nomad.NodeNetworkAddress{Alias: "lan", Address: "1.2.3.4"})
		}, []*nomad.Allocation{withPort(alloc("a", 1, 1, 1), "1.2.3.4", 90), withPort(alloc("b", 1, 1, 1), "1.2.3.4", 90)},
			"network: port collision"},
		{"same device", nil, []*nomad.Allocation{withDevice(alloc("a", 1, 1, 1), "x"), withDevice(alloc("b", 1, 1, 1), "y", "x")},
			"device oversubscribed"},
		{"other devices", nil, []*nomad.Allocation{withDevice(alloc("a", 1, 1, 1), "x"), withDevice(alloc("b", 1, 1, 1), "y")}, ""},
		{"same port on a removed address", nil,
			[]*nomad.Allocation{withPort(alloc("a", 1, 1, 1), "9.9.9.9", 80), withPort(alloc("b", 1, 1, 1), "9.9.9.9", 80)},
			"network: port collision"},
		{"max allocations", func(n *nomad.Node) { n.NodeMaxAllocs = 1 }, []*nomad.Allocation{alloc("a", 1, 1, 1), alloc("b", 1, 1, 1)},
			"max allocation exceeded"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := node()
			if c.edit != nil {
				c.edit(n)
			}
			fit, dim, _, err := feasible.AllocsFit(n, c.allocs)
			if err != nil || dim != c.want || fit != (c.want == "") {
				t.Errorf("AllocsFit() = %v %q %v, want %q", fit, dim, err, c.want)
			}
		})
	}
}

func TestAllocsFitErrors(t *testing.T) {
	if _, _, _, err := feasible.AllocsFit(&nomad.Node{}, nil); !errors.Is(err, feasible.ErrNoResources) {
		t.Errorf("err = %v, want ErrNoResources", err)
	}
	for _, spec := range []string{"a", "1-", "9-1", "70000", "-1"} {
		n := node()
		n.ReservedResources = &nomad.NodeReservedResources{Networks: nomad.NodeReservedNetworkResources{ReservedHostPorts: spec}}
		if _, _, _, err := feasible.AllocsFit(n, nil); err == nil || !strings.Contains(err.Error(), spec) {
			t.Errorf("reserved ports %q: err = %v", spec, err)
		}
	}
}

func TestAllocsFit_Lifecycle(t *testing.T) {
	task := func(mem int64) *nomad.AllocatedTaskResources {
		return &nomad.AllocatedTaskResources{Memory: nomad.AllocatedMemoryResources{MemoryMB: mem}}
	}
	r := &nomad.AllocatedResources{
		Tasks: map[string]*nomad.AllocatedTaskResources{"init": task(500), "main": task(100), "side": task(10), "post": task(50),
			"after": task(300)},
		TaskLifecycles: map[string]*nomad.TaskLifecycleConfig{
			"init": {Hook: "prestart"}, "side": {Hook: "prestart", Sidecar: true}, "post": {Hook: "poststart"}, "after": {Hook: "poststop"},
		},
	}
	if got := r.Flatten().MemoryMB; got != 510 {
		t.Errorf("MemoryMB = %d, want 510: prestart and sidecar together need the most", got)
	}
}

func TestTopologyCapacity(t *testing.T) {
	n := node()
	top := &nomad.Topology{}
	for i := range 4 {
		top.Cores = append(top.Cores, nomad.Core{ID: nomad.CoreID(i), NodeID: nomad.NUMANodeID(i / 2), BaseSpeed: 1000, Disable: i == 0})
	}
	n.NodeResources.Processors.Topology = top
	if c := feasible.Capacity(n); c.CPU != 3000 || !slices.Equal(c.Cores, []uint16{1, 2, 3}) {
		t.Errorf("Capacity() = %+v", c)
	}
	n.ReservedResources = &nomad.NodeReservedResources{Cpu: nomad.NodeReservedCpuResources{CpuShares: 1000, ReservedCpuCores: []uint16{0}}}
	if c := feasible.Capacity(n); c.CPU != 3000 {
		t.Errorf("a reservation reported twice counts twice: %d", c.CPU)
	}

	tg := &nomad.TaskGroup{Tasks: []*nomad.Task{{Name: "t", Resources: &nomad.Resources{Cores: 2, NUMA: &nomad.NUMA{Affinity: "require"}}}}}
	u, err := feasible.NewUsage(n)
	if err != nil {
		t.Fatal(err)
	}
	r, why := u.Fit(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), rand.New(rand.NewPCG(1, 1)))
	if why != "" || !slices.Equal(r.Tasks["t"].Cpu.ReservedCores, []uint16{2, 3}) || r.Tasks["t"].Cpu.CpuShares != 2000 {
		t.Errorf("Fit() = %+v %q, want cores 2 and 3, which share a memory node", r, why)
	}
	u.Add(&nomad.Allocation{ID: "a", AllocatedResources: r})
	if _, why := u.Fit(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), nil); why != "cores" {
		t.Errorf("Fit() on one free core = %q", why)
	}
}

func ports(n nomad.NetworkResource) *feasible.Ask {
	return feasible.NewAsk(&nomad.TaskGroup{Networks: nomad.Networks{&n}}, &nomad.SchedulerConfiguration{})
}

func TestPorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	static := func(label, network string, port int) nomad.NetworkResource {
		return nomad.NetworkResource{ReservedPorts: []nomad.Port{{Label: label, HostNetwork: network, Value: port}}}
	}
	u, err := feasible.NewUsage(node())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"127.0.0.1", "::1"} { // each address has its own ports
		r, why := u.Fit(ports(static("http", "", 80)), rng)
		if why != "" || r.Shared.Ports[0].HostIP != want || r.Shared.Networks[0].IP != "127.0.0.1" {
			t.Fatalf("port 80, time %d: %+v %q, want %s", i+1, r, why, want)
		}
		u.Add(&nomad.Allocation{ID: fmt.Sprint(i), AllocatedResources: r})
	}
	for _, c := range []struct {
		ask  nomad.NetworkResource
		want string
	}{
		{static("http", "", 80), "network: reserved port collision http=80"},
		{static("web", "public", 80), "network: reserved port collision web=80"},
		{static("web", "private", 80), "network: no addresses available for private network"},
		{nomad.NetworkResource{ReservedPorts: []nomad.Port{{Label: "a", HostNetwork: "public", Value: 81},
			{Label: "b", HostNetwork: "public", Value: 81}}},
			"network: reserved port collision b=81"},
	} {
		if _, why := u.Fit(ports(c.ask), rng); why != c.want {
			t.Errorf("Fit() = %q, want %q", why, c.want)
		}
	}
	u.Remove("0")
	if r, why := u.Fit(ports(static("http", "", 80)), rng); why != "" || r.Shared.Ports[0].HostIP != "127.0.0.1" {
		t.Errorf("a released port is not free: %q", why)
	}
}

func TestPorts_Exhausted(t *testing.T) {
	n := node()
	n.NodeResources.NodeNetworks[0].Addresses = n.NodeResources.NodeNetworks[0].Addresses[:1]
	n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 20000, 20049
	u, err := feasible.NewUsage(n)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	ask := ports(nomad.NetworkResource{DynamicPorts: []nomad.Port{{Label: "p"}}})
	seen := map[int]bool{}
	for i := range 50 {
		r, why := u.Fit(ask, rng)
		if why != "" {
			t.Fatalf("port %d of 50: %s", i+1, why)
		}
		p := r.Shared.Ports[0].Value
		if seen[p] || p < 20000 || p > 20049 {
			t.Fatalf("port %d given twice or out of range", p)
		}
		seen[p] = true
		u.Add(&nomad.Allocation{ID: fmt.Sprint(i), AllocatedResources: r})
	}
	if _, why := u.Fit(ask, rng); why != "network: dynamic port selection failed" {
		t.Errorf("port 51 of 50: %q", why)
	}
}

func TestUsage_AddRemove(t *testing.T) {
	u, err := feasible.NewUsage(node())
	if err != nil {
		t.Fatal(err)
	}
	a := withPort(withCores(alloc("a", 10, 20, 30), 1), "127.0.0.1", 80)
	b := withPort(withCores(alloc("b", 10, 20, 30), 1), "127.0.0.1", 80)
	u.Add(a)
	before := fmt.Sprint(u.Used())
	u.Add(b)
	if u.Exhausted() == "" {
		t.Error("two allocations on one core and one port fit")
	}
	u.Remove("b")
	u.Remove("b")
	if got := fmt.Sprint(u.Used()); got != before || u.Exhausted() != "" {
		t.Errorf("Used() = %s, want %s; exhausted %q", got, before, u.Exhausted())
	}
}

func TestScores(t *testing.T) {
	u, err := feasible.NewUsage(node())
	if err != nil {
		t.Fatal(err)
	}
	half, full := feasible.Used{CPU: 500, MemoryMB: 500}, feasible.Used{CPU: 1000, MemoryMB: 1000}
	if got := u.BinPackScore(full); got != 1 {
		t.Errorf("BinPackScore(full) = %v, want 1", got)
	}
	if got := u.SpreadScore(feasible.Used{}); got != 1 {
		t.Errorf("SpreadScore(empty) = %v, want 1", got)
	}
	if !(u.BinPackScore(half) < u.BinPackScore(full)) || !(u.SpreadScore(half) > u.SpreadScore(full)) {
		t.Error("a fuller node does not score higher for bin packing and lower for spreading")
	}
}
