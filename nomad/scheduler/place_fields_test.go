package scheduler_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// fields sets the fields of v that key=value pairs name.
func fields[T any](t testing.TB, known map[string]func(*T, string), v *T, args []string) {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		set := known[key]
		if prefix, rest, ok := strings.Cut(key, "."); set == nil && ok { // attr.kernel.name
			set, value = known[prefix+"."], rest+"="+value
		}
		if set == nil {
			t.Fatalf("unknown field %q", arg)
		}
		set(v, value)
	}
}

// whole returns the number in a script. A mistake shows as a panic of the test.
func whole(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

var volumeFields = map[string]func(*hostvolume.Volume, string){
	"namespace": func(v *hostvolume.Volume, s string) { v.Namespace = s },
	"state":     func(v *hostvolume.Volume, s string) { v.State = hostvolume.State(s) },
	// mode=single-node-writer/block-device adds a capability.
	"mode": func(v *hostvolume.Volume, s string) {
		access, attachment, _ := strings.Cut(s, "/")
		v.RequestedCapabilities = append(v.RequestedCapabilities, &nomad.VolumeCapability{
			AccessMode: nomad.VolumeAccessMode(access), AttachmentMode: nomad.VolumeAttachmentMode(attachment)})
	},
}

var nodeFields = map[string]func(*nomad.Node, string){
	"cpu":        func(n *nomad.Node, v string) { n.NodeResources.Cpu.CpuShares = int64(whole(v)) },
	"memory":     func(n *nomad.Node, v string) { n.NodeResources.Memory.MemoryMB = int64(whole(v)) },
	"disk":       func(n *nomad.Node, v string) { n.NodeResources.Disk.DiskMB = int64(whole(v)) },
	"dc":         func(n *nomad.Node, v string) { n.Datacenter = v },
	"class":      func(n *nomad.Node, v string) { n.NodeClass = v },
	"pool":       func(n *nomad.Node, v string) { n.NodePool = v },
	"max_allocs": func(n *nomad.Node, v string) { n.NodeMaxAllocs = whole(v) },
	"ineligible": func(n *nomad.Node, _ string) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible },
	"draining":   func(n *nomad.Node, _ string) { n.DrainStrategy = &nomad.DrainStrategy{} },
	"volume":     func(n *nomad.Node, v string) { n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{v: {Name: v}} },
	"unhealthy":  func(n *nomad.Node, v string) { n.Drivers[v] = &nomad.DriverInfo{Detected: true} },
	"attr.": func(n *nomad.Node, v string) {
		key, value, _ := strings.Cut(v, "=")
		n.Attributes[key] = value
	},
	"meta.": func(n *nomad.Node, v string) {
		key, value, _ := strings.Cut(v, "=")
		n.Meta[key] = value
	},
	// numa=0-1/2-3 sets cores of 1 GHz, one range for each memory node.
	"numa": func(n *nomad.Node, v string) {
		top := &nomad.Topology{}
		for node, part := range strings.Split(v, "/") {
			first, last, _ := strings.Cut(part, "-")
			for id := whole(first); id <= whole(last); id++ {
				top.Cores = append(top.Cores, nomad.Core{ID: nomad.CoreID(id), NodeID: nomad.NUMANodeID(node), BaseSpeed: 1000})
			}
		}
		n.NodeResources.Processors.Topology = top
	},
	// bus=3b/af sets the NUMA nodes of PCI addresses, one for each memory node; it follows numa.
	"bus": func(n *nomad.Node, v string) {
		buses := map[string]nomad.NUMANodeID{}
		for node, bus := range strings.Split(v, "/") {
			buses["0000:"+bus+":00.0"] = nomad.NUMANodeID(node)
		}
		n.NodeResources.Processors.Topology.BusAssociativity = buses
	},
	// networks=none removes all networks.
	"networks": func(n *nomad.Node, v string) { n.NodeResources.NodeNetworks = nil },
	// address=alias@10.0.0.1/22,80 adds an address of a host network with reserved ports.
	"address": func(n *nomad.Node, v string) {
		alias, rest, _ := strings.Cut(v, "@")
		ip, reserved, _ := strings.Cut(rest, "/")
		net := n.NodeResources.NodeNetworks[0]
		net.Addresses = append(net.Addresses, nomad.NodeNetworkAddress{Alias: alias, Address: ip, ReservedPorts: reserved})
	},
	"mode": func(n *nomad.Node, v string) {
		n.NodeResources.NodeNetworks = append(n.NodeResources.NodeNetworks, &nomad.NodeNetworkResource{Mode: v})
	},
	// ports=20000-20005 sets the range of dynamic ports.
	"ports": func(n *nomad.Node, v string) {
		low, high, _ := strings.Cut(v, "-")
		n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = whole(low), whole(high)
	},
	"reserved_ports":  func(n *nomad.Node, v string) { reservedOf(n).Networks.ReservedHostPorts = v },
	"reserved_cpu":    func(n *nomad.Node, v string) { reservedOf(n).Cpu.CpuShares = int64(whole(v)) },
	"reserved_memory": func(n *nomad.Node, v string) { reservedOf(n).Memory.MemoryMB = int64(whole(v)) },
	"reserved_disk":   func(n *nomad.Node, v string) { reservedOf(n).Disk.DiskMB = int64(whole(v)) },
	"reserved_core": func(n *nomad.Node, v string) {
		r := reservedOf(n)
		r.Cpu.ReservedCpuCores = append(r.Cpu.ReservedCpuCores, uint16(whole(v)))
	},
	// device=nvidia/gpu/t4:a,b!:memory=16GiB,arch=turing adds a device with instances; "!" marks an unhealthy one.
	// a@3b is at the PCI address 0000:3b:00.0.
	"device": func(n *nomad.Node, v string) {
		parts := strings.SplitN(v, ":", 3)
		name := strings.Split(parts[0], "/")
		d := &nomad.NodeDeviceResource{Vendor: name[0], Type: name[1], Name: name[2], Attributes: map[string]*nomad.Attribute{}}
		for _, id := range strings.Split(parts[1], ",") {
			id, healthy := strings.TrimSuffix(id, "!"), !strings.HasSuffix(id, "!")
			id, bus, located := strings.Cut(id, "@")
			i := &nomad.NodeDevice{ID: id, Healthy: healthy}
			if located {
				i.Locality = &nomad.NodeDeviceLocality{PciBusID: "0000:" + bus + ":00.0"}
			}
			d.Instances = append(d.Instances, i)
		}
		if len(parts) == 3 {
			for _, pair := range strings.Split(parts[2], ",") {
				key, value, _ := strings.Cut(pair, "=")
				d.Attributes[key] = feasible.ParseAttribute(value)
			}
		}
		n.NodeResources.Devices = append(n.NodeResources.Devices, d)
	},
}

func reservedOf(n *nomad.Node) *nomad.NodeReservedResources {
	if n.ReservedResources == nil {
		n.ReservedResources = &nomad.NodeReservedResources{}
	}
	return n.ReservedResources
}

var allocFields = map[string]func(*nomad.Allocation, string){
	"priority": func(a *nomad.Allocation, v string) { a.Job.Priority = whole(v) },
	"cpu":      func(a *nomad.Allocation, v string) { a.AllocatedResources.Tasks["t"].Cpu.CpuShares = int64(whole(v)) },
	"memory":   func(a *nomad.Allocation, v string) { a.AllocatedResources.Tasks["t"].Memory.MemoryMB = int64(whole(v)) },
	"disk":     func(a *nomad.Allocation, v string) { a.AllocatedResources.Shared.DiskMB = int64(whole(v)) },
	"core": func(a *nomad.Allocation, v string) {
		t := a.AllocatedResources.Tasks["t"]
		t.Cpu.ReservedCores = append(t.Cpu.ReservedCores, uint16(whole(v)))
	},
	"port": func(a *nomad.Allocation, v string) {
		ip, port, _ := strings.Cut(v, ":")
		r := &a.AllocatedResources.Shared
		r.Ports = append(r.Ports, nomad.AllocatedPortMapping{Label: "p", HostIP: ip, Value: whole(port)})
	},
	"group": func(a *nomad.Allocation, v string) { a.TaskGroup, a.Job.TaskGroups[0].Name = v, v },
	"max_parallel": func(a *nomad.Allocation, v string) {
		a.Job.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: whole(v)}
	},
	"stopping": func(a *nomad.Allocation, _ string) { a.DesiredStatus = nomad.AllocDesiredStatusStop },
	"device": func(a *nomad.Allocation, v string) {
		name, ids, _ := strings.Cut(v, ":")
		p := strings.Split(name, "/")
		t := a.AllocatedResources.Tasks["t"]
		t.Devices = append(t.Devices, &nomad.AllocatedDeviceResource{Vendor: p[0], Type: p[1], Name: p[2], DeviceIDs: strings.Split(ids, ",")})
	},
}

var configFields = map[string]func(*nomad.SchedulerConfiguration, string){
	"algorithm":        func(c *nomad.SchedulerConfiguration, v string) { c.SchedulerAlgorithm = nomad.SchedulerAlgorithm(v) },
	"oversubscription": func(c *nomad.SchedulerConfiguration, v string) { c.MemoryOversubscriptionEnabled = v == "true" },
	"node_limit":       func(c *nomad.SchedulerConfiguration, v string) { c.NodeLimitForFeasibilityChecks = uint(whole(v)) },
	"preempt": func(c *nomad.SchedulerConfiguration, v string) {
		c.PreemptionConfig = nomad.PreemptionConfig{ServiceSchedulerEnabled: v == "service", BatchSchedulerEnabled: v == "batch",
			SystemSchedulerEnabled: v == "system", SysBatchSchedulerEnabled: v == "sysbatch"}
	},
}

var poolFields = map[string]func(*nomad.NodePoolSchedulerConfiguration, string){
	"algorithm": func(c *nomad.NodePoolSchedulerConfiguration, v string) {
		c.SchedulerAlgorithm = nomad.SchedulerAlgorithm(v)
	},
	"oversubscription": func(c *nomad.NodePoolSchedulerConfiguration, v string) {
		on := v == "true"
		c.MemoryOversubscriptionEnabled = &on
	},
}
