package feasible_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// twoNUMA has the cores 0 to 3 on NUMA node 0 and 4 to 7 on node 1, 1 GHz each. The instances of its devices are written
// as ID@bus: a0 and a1 are the bus addresses of node 0, b0 and b1 those of node 1, and any other bus is unknown.
func twoNUMA(devices ...string) *nomad.Node {
	n := node()
	n.NodeResources.Processors.Topology = &nomad.Topology{Nodes: []uint8{0, 1}, BusAssociativity: map[string]nomad.NUMANodeID{
		"0000:a0:00.0": 0, "0000:a1:00.0": 0, "0000:b0:00.0": 1, "0000:b1:00.0": 1}}
	for id := range 8 {
		n.NodeResources.Processors.Topology.Cores = append(n.NodeResources.Processors.Topology.Cores,
			nomad.Core{ID: nomad.CoreID(id), NodeID: nomad.NUMANodeID(id / 4), BaseSpeed: 1000})
	}
	for _, text := range devices {
		name, instances, _ := strings.Cut(text, ":")
		kind, model, _ := strings.Cut(name, "/")
		d := &nomad.NodeDeviceResource{Vendor: "v", Type: kind, Name: model,
			Attributes: map[string]*nomad.Attribute{"model": feasible.ParseAttribute(model)}}
		for _, i := range strings.Split(instances, ",") {
			id, bus, located := strings.Cut(i, "@")
			dev := &nomad.NodeDevice{ID: id, Healthy: true}
			if located {
				dev.Locality = &nomad.NodeDeviceLocality{PciBusID: "0000:" + bus + ":00.0"}
			}
			d.Instances = append(d.Instances, dev)
		}
		n.NodeResources.Devices = append(n.NodeResources.Devices, d)
	}
	return n
}

// numaTask returns a task with cores and devices. A device is written as name or name*count, and "!" marks one that the
// numa block names.
func numaTask(name, affinity string, cores int, devices ...string) *nomad.Task {
	r := &nomad.Resources{Cores: cores, NUMA: &nomad.NUMA{Affinity: affinity}}
	for _, text := range devices {
		text, named := strings.CutSuffix(text, "!")
		device, count, many := strings.Cut(text, "*")
		d := &nomad.RequestedDevice{Name: device, Count: 1}
		if many {
			_, _ = fmt.Sscan(count, &d.Count)
		}
		r.Devices = append(r.Devices, d)
		if named {
			r.NUMA.Devices = append(r.NUMA.Devices, device)
		}
	}
	return &nomad.Task{Name: name, Resources: r}
}

// given describes what the tasks of a group got, such as "t[4 5] g1".
func given(tg *nomad.TaskGroup, got *nomad.AllocatedResources) string {
	var out []string
	for _, t := range tg.Tasks {
		text := fmt.Sprintf("%s%v", t.Name, got.Tasks[t.Name].Cpu.ReservedCores)
		for _, d := range got.Tasks[t.Name].Devices {
			text += " " + strings.Join(d.DeviceIDs, "+")
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestNUMADevices(t *testing.T) {
	one := func(affinity string, cores int, devices ...string) []*nomad.Task {
		return []*nomad.Task{numaTask("t", affinity, cores, devices...)}
	}
	for name, c := range map[string]struct {
		devices []string
		taken   *nomad.Allocation
		tasks   []*nomad.Task
		want    string
	}{
		"none takes the first of each": {[]string{"gpu/m:g1@b0"}, nil, one("none", 2, "gpu!"), "t[0 1] g1"},
		"not named":                    {[]string{"gpu/m:g1@b0"}, nil, one("require", 2, "gpu"), "t[0 1] g1"},
		"no cores":                     {[]string{"gpu/m:g1"}, nil, one("require", 0, "gpu!"), "t[] g1"},
		"require":                      {[]string{"gpu/m:g1@b0"}, nil, one("require", 2, "gpu!"), "t[4 5] g1"},
		"prefer":                       {[]string{"gpu/m:g1@b0"}, nil, one("prefer", 2, "gpu!"), "t[4 5] g1"},
		"the lower node":               {[]string{"gpu/m:g1@b0,g0@a0"}, nil, one("require", 2, "gpu!"), "t[0 1] g0"},
		"cores taken": {[]string{"gpu/m:g0@a0,g1@b0"}, withCores(alloc("x", 0, 0, 0), 0, 1, 2), one("require", 2, "gpu!"),
			"t[4 5] g1"},
		"device taken": {[]string{"gpu/m:g0@a0,g1@b0"}, withDevice(alloc("x", 0, 0, 0), "g0"), one("require", 2, "gpu!"),
			"t[4 5] g1"},
		"apart, require": {[]string{"gpu/m:g0@a0"}, withCores(alloc("x", 0, 0, 0), 0, 1, 2), one("require", 2, "gpu!"),
			feasible.DimensionNUMA},
		"apart, prefer": {[]string{"gpu/m:g0@a0"}, withCores(alloc("x", 0, 0, 0), 0, 1, 2), one("prefer", 2, "gpu!"),
			"t[4 5] g0"},
		"no locality, require": {[]string{"gpu/m:g0"}, nil, one("require", 2, "gpu!"), feasible.DimensionNUMA},
		"no locality, prefer":  {[]string{"gpu/m:g0"}, nil, one("prefer", 2, "gpu!"), "t[0 1] g0"},
		"unknown bus, require": {[]string{"gpu/m:g0@c0"}, nil, one("require", 2, "gpu!"), feasible.DimensionNUMA},
		"unknown bus skipped":  {[]string{"gpu/m:g0@c0,g1@b0"}, nil, one("require", 2, "gpu!"), "t[4 5] g1"},
		"all instances":        {[]string{"gpu/m:g0@a0,g1@b0,g2@b1"}, nil, one("require", 2, "gpu*2!"), "t[4 5] g1+g2"},
		"instances apart":      {[]string{"gpu/m:g0@a0,g1@b0"}, nil, one("require", 2, "gpu*2!"), feasible.DimensionNUMA},
		"two devices": {[]string{"gpu/m:g0@a0,g1@b0", "nic/m:n1@b1"}, nil, one("require", 2, "gpu!", "nic!"),
			"t[4 5] g1 n1"},
		"one of two named": {[]string{"gpu/m:g0@a0,g1@b0", "nic/m:n0@a0"}, withCores(alloc("x", 0, 0, 0), 0, 1, 2),
			one("require", 2, "nic", "gpu!"), "t[4 5] n0 g1"},
		"the named one is first": {[]string{"gpu/m:g0@a0,g1@b0"}, nil, one("require", 2, "gpu", "v/gpu!"), "t[0 1] g1 g0"},
		"none is free": {[]string{"gpu/m:g0@a0"}, withDevice(alloc("x", 0, 0, 0), "g0"), one("require", 2, "gpu!"),
			feasible.DimensionDevices},
		"too few cores": {[]string{"gpu/m:g0@a0"}, nil, one("require", 5, "gpu!"), feasible.DimensionCores},
		"two tasks": {[]string{"gpu/m:g0@a0,g1@b0"}, nil,
			[]*nomad.Task{numaTask("t", "require", 3, "gpu!"), numaTask("u", "require", 3, "gpu!")}, "t[0 1 2] g0, u[4 5 6] g1"},
		"two tasks on one node": {[]string{"gpu/m:g0@a0,g1@a1"}, nil,
			[]*nomad.Task{numaTask("t", "require", 1, "gpu!"), numaTask("u", "require", 1, "gpu!")}, "t[0] g0, u[1] g1"},
		"another task takes the rest": {[]string{"gpu/m:g0@a0,g1@b0"}, nil,
			[]*nomad.Task{numaTask("t", "none", 1, "gpu"), numaTask("u", "require", 1, "gpu!")}, "t[1] g1, u[0] g0"},
		"the second has one choice": {[]string{"gpu/m:g0@a0,g1@b0", "nic/m:n0@a1"}, nil,
			[]*nomad.Task{numaTask("t", "require", 3, "gpu!"), numaTask("u", "require", 3, "nic!")}, "t[4 5 6] g1, u[0 1 2] n0"},
		"cores for another task": {[]string{"gpu/m:g0@a0,g1@b0"}, withCores(alloc("x", 0, 0, 0), 0),
			[]*nomad.Task{numaTask("t", "none", 1), numaTask("u", "require", 2, "gpu!"), numaTask("w", "require", 3)},
			"t[3], u[1 2] g0, w[4 5 6]"},
		"another task needs the node": {[]string{"gpu/m:g0@a0,g1@b0"}, withCores(alloc("x", 0, 0, 0), 4),
			[]*nomad.Task{numaTask("t", "require", 4), numaTask("u", "require", 2, "gpu!")}, "t[0 1 2 3], u[5 6] g1"},
		"prefer gives way": {[]string{"gpu/m:g0@a0", "nic/m:n0@a1"}, withCores(alloc("x", 0, 0, 0), 4),
			[]*nomad.Task{numaTask("t", "prefer", 1, "gpu!"), numaTask("u", "require", 4, "nic!")}, "t[5] g0, u[0 1 2 3] n0"},
	} {
		t.Run(name, func(t *testing.T) {
			usage, err := feasible.NewUsage(twoNUMA(c.devices...))
			if err != nil {
				t.Fatal(err)
			}
			if c.taken != nil {
				usage.Add(c.taken)
			}
			tg := &nomad.TaskGroup{Name: "g", Tasks: c.tasks}
			got, text := usage.Fit(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), nil)
			if got != nil {
				text = given(tg, got)
			}
			if text != c.want {
				t.Errorf("Fit() = %q, want %q", text, c.want)
			}
		})
	}
}

// The NUMA node whose devices have the highest affinity is chosen, not the lowest one.
func TestNUMADevices_Affinity(t *testing.T) {
	usage, err := feasible.NewUsage(twoNUMA("gpu/m:g0@a0", "gpu/best:g1@b0"))
	if err != nil {
		t.Fatal(err)
	}
	task := numaTask("t", "require", 2, "gpu!")
	task.Resources.Devices[0].Affinities = nomad.Affinities{{LTarget: "${device.model}", Operand: "=", RTarget: "best", Weight: 50}}
	tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{task}}
	got, why := usage.Fit(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), nil)
	if got == nil || given(tg, got) != "t[4 5] g1" {
		t.Errorf("Fit() = %+v, %q, want g1 on NUMA node 1", got, why)
	}
}

// Plugins write the address of a PCI device in several ways.
func TestNUMADevices_Address(t *testing.T) {
	for bus, want := range map[string]bool{"0000:b0:00.0": true, "00000000:B0:00.0": true, "b0:00.0": true, "0001:b0:00.0": false,
		"b0": false, "": false, "0:0000:b0:00.0": false} {
		n := twoNUMA("gpu/m:g1")
		n.NodeResources.Devices[0].Instances[0].Locality = &nomad.NodeDeviceLocality{PciBusID: bus}
		usage, err := feasible.NewUsage(n)
		if err != nil {
			t.Fatal(err)
		}
		tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{numaTask("t", "require", 1, "gpu!")}}
		if got, why := usage.Fit(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), nil); (got != nil) != want {
			t.Errorf("address %q: Fit() = %+v, %q, want fit %v", bus, got, why, want)
		}
	}
}

// A group whose tasks cannot all be on NUMA nodes ends the search after a bounded number of choices.
func TestNUMADevices_Bounded(t *testing.T) {
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprintf("g%d@%s", i, []string{"a0", "b0"}[i%2]))
	}
	n := twoNUMA("gpu/m:"+strings.Join(ids, ","), "nic/m:n0@c0")
	for id := 8; id < 40; id++ {
		n.NodeResources.Processors.Topology.Cores = append(n.NodeResources.Processors.Topology.Cores,
			nomad.Core{ID: nomad.CoreID(id), NodeID: nomad.NUMANodeID(id % 2), BaseSpeed: 1000})
	}
	usage, err := feasible.NewUsage(n)
	if err != nil {
		t.Fatal(err)
	}
	for affinity, want := range map[string]string{"require": feasible.DimensionNUMA, "prefer": ""} {
		var tasks []*nomad.Task
		for i := range 30 { // 2 to the power of 30 choices
			tasks = append(tasks, numaTask(fmt.Sprintf("t%d", i), affinity, 1, "gpu!"))
		}
		tasks = append(tasks, numaTask("last", affinity, 1, "nic!"))
		if _, why := usage.Fit(feasible.NewAsk(&nomad.TaskGroup{Name: "g", Tasks: tasks}, &nomad.SchedulerConfiguration{}), nil); why != want {
			t.Errorf("%s: Fit() = %q, want %q", affinity, why, want)
		}
	}
}

func TestNUMADevices_Preempt(t *testing.T) {
	prior := func(a *nomad.Allocation, priority int) *nomad.Allocation {
		a.JobID, a.TaskGroup = a.ID, "g"
		a.Job = &nomad.Job{ID: a.ID, Priority: priority, TaskGroups: []*nomad.TaskGroup{{Name: "g"}}}
		return a
	}
	for name, c := range map[string]struct {
		devices []string
		allocs  []*nomad.Allocation
		want    string // victims and what the task gets
	}{
		"the lowest priority is on the wrong node": {[]string{"gpu/m:g0@a0,g1@b0"}, []*nomad.Allocation{
			prior(withDevice(alloc("low", 0, 0, 0), "g0"), 10), prior(withDevice(alloc("high", 0, 0, 0), "g1"), 20),
			prior(withCores(alloc("system", 0, 0, 0), 0, 1, 2), 100)}, "[high] t[4 5] g1"},
		"the device is free on the wrong node": {[]string{"gpu/m:g0@a0,g1@b0"}, []*nomad.Allocation{
			prior(withDevice(alloc("low", 0, 0, 0), "g1"), 10), prior(withCores(alloc("system", 0, 0, 0), 0, 1, 2), 100)},
			"[low] t[4 5] g1"},
		"cores": {[]string{"gpu/m:g1@b0"}, []*nomad.Allocation{prior(withCores(alloc("a", 0, 0, 0), 0, 1), 10),
			prior(withCores(alloc("b", 0, 0, 0), 4, 5, 6), 20), prior(alloc("c", 900, 900, 0), 10)}, "[b] t[4 5] g1"},
		"impossible": {[]string{"gpu/m:g1@c0"}, []*nomad.Allocation{prior(withCores(alloc("a", 0, 0, 0), 0, 1), 10)}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			usage, err := feasible.NewUsage(twoNUMA(c.devices...))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range c.allocs {
				usage.Add(a)
			}
			tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{numaTask("t", "require", 2, "gpu!")}}
			ask := feasible.NewAsk(tg, &nomad.SchedulerConfiguration{})
			victims, got, ok := usage.Preempt(ask, nil, feasible.Preemption{Job: "j", Priority: 50})
			text := "none"
			if ok {
				var ids []string
				for _, a := range victims {
					ids = append(ids, a.ID)
				}
				text = fmt.Sprintf("%v %s", ids, given(tg, got))
			}
			if text != c.want {
				t.Errorf("Preempt() = %q, want %q", text, c.want)
			}
		})
	}
}

func TestNUMADevices_Explain(t *testing.T) {
	for affinity, want := range map[string]string{"none": "", "prefer": "", "require": "numa: cores and 1 gpu on one NUMA node"} {
		usage, err := feasible.NewUsage(twoNUMA("gpu/m:g0"))
		if err != nil {
			t.Fatal(err)
		}
		tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{numaTask("t", affinity, 2, "gpu!")}}
		failed := ""
		usage.Explain(feasible.NewAsk(tg, &nomad.SchedulerConfiguration{}), nil, func(c feasible.Check) {
			if !c.Passed {
				failed += c.Need
			}
		})
		if failed != want {
			t.Errorf("%s: failed checks %q, want %q", affinity, failed, want)
		}
	}
}
