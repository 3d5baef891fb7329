package scheduler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// TestPlaceScripts runs testdata/place/*.txt. A script is a list of steps. The lines after "eval" that begin with ">"
// are its plan and its metrics; -update rewrites them.
//
//	node n1 [key=value …]     adds a node; the keys are in nodeFields
//	alloc a1 n1 [key=value …] adds an allocation of another job; the keys are in allocFields
//	config [key=value …]      changes the scheduler configuration; the keys are in configFields
//	pool [key=value …]        sets the configuration of the node pool
//	job "j" { … }             registers a jobspec, up to the line "}"; validation is not done
//	eval [ID]                 processes an evaluation of the job
//	matches                   processes an evaluation and prints only the nodes with an allocation, and the reasons
//	fresh                     removes the job and its allocations
//	failed j.g[0]             reports that an allocation failed
//	down n1 | ready n1        changes the status of a node

func TestPlaceScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/place/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&placeScript{world: newWorld(t)}).run(string(raw))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("the script is\n%s\nits result is\n%s", raw, got)
			}
		})
	}
}

// placeScript is a world that the steps of a script change.
type placeScript struct {
	*world
	steps int // evaluations so far
}

// run runs the steps and returns the text with the actual plans.
func (s *placeScript) run(text string) string {
	var out, spec strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		switch {
		case spec.Len() > 0 || strings.HasPrefix(line, "job "):
			spec.WriteString(line)
			if line == "}\n" {
				s.job(spec.String())
				spec.Reset()
			}
		case len(words) > 0 && words[0] != "#":
			for _, l := range s.step(words[0], words[1:]) {
				out.WriteString("> " + l + "\n")
			}
		}
	}
	if spec.Len() > 0 {
		s.t.Fatal("the job has no end")
	}
	return out.String()
}

func (s *placeScript) step(verb string, args []string) []string {
	switch verb {
	case "node":
		s.addNode(args[0], func(n *nomad.Node) { fields(s.t, nodeFields, n, args[1:]) })
	case "alloc":
		s.set(s.other(args[0], args[1], args[2:]))
	case "config":
		fields(s.t, configFields, &s.config, args)
	case "pool":
		s.pool = &nomad.NodePoolSchedulerConfiguration{}
		fields(s.t, poolFields, s.pool, args)
	case "failed":
		for _, a := range s.live() {
			if a.Name == args[0] {
				s.report(nomad.AllocClientStatusFailed, nil, a)
			}
		}
	case "down":
		s.nodes[args[0]].Status = nomad.NodeStatusDown
	case "ready":
		s.nodes[args[0]].Status = nomad.NodeStatusReady
	case "eval":
		return s.evaluate(args)
	case "matches":
		return s.matches()
	case "fresh":
		s.fresh()
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
	return nil
}

// job registers a jobspec. Both types of jobs have the same JSON.
func (s *placeScript) job(spec string) {
	in, err := jobspec.Parse(jobspec.Config{Source: []byte(spec)})
	if err != nil {
		s.t.Fatal(err)
	}
	in.Canonicalize()
	raw, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	j := &nomad.Job{}
	if err := json.Unmarshal(raw, j); err != nil {
		s.t.Fatal(err)
	}
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex = 5, 5, 5
	s.register(j)
}

// other returns a running allocation of another job.
func (s *placeScript) other(id, node string, args []string) *nomad.Allocation {
	a := &nomad.Allocation{
		ID: id, Name: "other.g[0]", NodeID: node, Namespace: "default", JobID: "other", TaskGroup: "g",
		Job:           &nomad.Job{ID: "other", Priority: 50, TaskGroups: []*nomad.TaskGroup{{Name: "g"}}},
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning,
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{"t": {}}},
	}
	fields(s.t, allocFields, a, args)
	return a
}

// evaluate processes an evaluation and returns its result.
func (s *placeScript) evaluate(args []string) []string {
	s.now = s.now.Add(time.Minute)
	s.steps++
	before := maps.Clone(s.allocs)
	e := s.process(func(e *nomad.Evaluation) {
		e.ID = fmt.Sprintf("evaluation-%d", s.steps)
		if len(args) > 0 {
			e.ID = args[0]
		}
	})
	var placed []*nomad.Allocation
	var out []string
	for id, a := range s.allocs {
		switch was := before[id]; {
		case was == nil:
			placed = append(placed, a)
		case was.DesiredStatus == nomad.AllocDesiredStatusRun && a.DesiredStatus != nomad.AllocDesiredStatusRun:
			out = append(out, fmt.Sprintf("%s %s on %s", a.DesiredStatus, shown(a), a.NodeID))
		}
	}
	slices.Sort(out)
	slices.SortFunc(placed, func(a, b *nomad.Allocation) int { return strings.Compare(a.Name+a.NodeID, b.Name+b.NodeID) })
	for _, a := range placed {
		out = append(out, s.describe(a)...)
	}
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		out = append(out, "no node for group "+group+":")
		out = append(out, describeMetric(e.FailedTGAllocs[group])...)
	}
	if len(out) == 0 {
		return []string{"nothing"}
	}
	return out
}

// matches processes an evaluation of a new job. It returns the nodes with an allocation and the reasons of the others.
func (s *placeScript) matches() []string {
	s.steps++
	e := s.process(func(e *nomad.Evaluation) { e.ID = fmt.Sprintf("evaluation-%d", s.steps) })
	line := "on"
	for _, a := range s.live() {
		line += " " + a.NodeID
	}
	s.fresh()
	if m := e.FailedTGAllocs["g"]; m != nil {
		return append([]string{line}, describeMetric(m)...)
	}
	return []string{line}
}

// fresh removes the job and its allocations.
func (s *placeScript) fresh() {
	for id, a := range s.allocs {
		if a.JobID == "j" {
			delete(s.allocs, id)
			delete(s.byNode[a.NodeID], id)
		}
	}
	delete(s.jobs, "j")
	s.deps = nil
}

// shown returns the name of an allocation of the job, and the ID of another one.
func shown(a *nomad.Allocation) string {
	if a.JobID == "other" {
		return a.ID
	}
	return a.Name
}

// describe returns the node, the assigned resources and the scores of an allocation.
func (s *placeScript) describe(a *nomad.Allocation) []string {
	line := fmt.Sprintf("place %s on %s", a.Name, a.NodeID)
	r := a.AllocatedResources
	for _, p := range r.Shared.Ports {
		line += fmt.Sprintf(", port %s=%s:%d", p.Label, p.HostIP, p.Value)
		if p.To > 0 {
			line += fmt.Sprintf(" to %d", p.To)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		t := r.Tasks[name]
		if len(t.Cpu.ReservedCores) > 0 {
			line += fmt.Sprintf(", cores %v of %d MHz", t.Cpu.ReservedCores, t.Cpu.CpuShares)
		}
		if t.Memory.MemoryMaxMB != 0 {
			line += fmt.Sprintf(", memory %d of at most %d MB", t.Memory.MemoryMB, t.Memory.MemoryMaxMB)
		}
		for _, n := range t.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				line += fmt.Sprintf(", port of %s %s=%s:%d", name, p.Label, n.IP, p.Value)
			}
		}
		for _, d := range t.Devices {
			line += fmt.Sprintf(", device %s/%s/%s %v", d.Vendor, d.Type, d.Name, d.DeviceIDs)
		}
	}
	out := []string{fmt.Sprintf("%s (%d visited)", line, a.Metrics.NodesEvaluated)}
	for _, m := range a.Metrics.ScoreMetaData {
		scores := fmt.Sprintf("  %s %.4f:", m.NodeID, m.NormScore)
		for _, k := range slices.Sorted(maps.Keys(m.Scores)) {
			if m.Scores[k] != 0 {
				scores += fmt.Sprintf(" %s %.4f", k, m.Scores[k])
			}
		}
		out = append(out, scores)
	}
	return out
}

// describeMetric returns the reasons of a metric.
func describeMetric(m *nomad.AllocMetric) []string {
	out := []string{fmt.Sprintf("  %d of pool %s: available %v, evaluated %d, filtered %d, exhausted %d, coalesced %d",
		m.NodesInPool, m.NodePool, m.NodesAvailable, m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted, m.CoalescedFailures)}
	for _, c := range []struct {
		what   string
		counts map[string]int
	}{{"filtered", m.ConstraintFiltered}, {"class filtered", m.ClassFiltered}, {"exhausted", m.DimensionExhausted}, {"class exhausted", m.ClassExhausted}} {
		for _, k := range slices.Sorted(maps.Keys(c.counts)) {
			out = append(out, fmt.Sprintf("  %s %d: %s", c.what, c.counts[k], k))
		}
	}
	for _, task := range slices.Sorted(maps.Keys(m.ResourcesExhausted)) {
		r := m.ResourcesExhausted[task]
		out = append(out, fmt.Sprintf("  task %s asks cpu %d, cores %d, memory %d", task, r.CPU, r.Cores, r.MemoryMB))
	}
	return out
}

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
	"device": func(n *nomad.Node, v string) {
		parts := strings.SplitN(v, ":", 3)
		name := strings.Split(parts[0], "/")
		d := &nomad.NodeDeviceResource{Vendor: name[0], Type: name[1], Name: name[2], Attributes: map[string]*nomad.Attribute{}}
		for _, id := range strings.Split(parts[1], ",") {
			d.Instances = append(d.Instances, &nomad.NodeDevice{ID: strings.TrimSuffix(id, "!"), Healthy: !strings.HasSuffix(id, "!")})
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
