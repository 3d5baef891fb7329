package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// explain returns the checks of node n1 for the job's group, one in a line, and whether it fits.
func (w *world) explain(node string) (string, bool) {
	j := w.jobs["j"]
	r := scheduler.NewExplainer(w, j, scheduler.Options{Schemas: w.parsed}).Node(j.TaskGroups[0], w.nodes[node])
	var out []string
	for _, c := range r.Checks {
		out = append(out, fmt.Sprintf("%s %t %s: %s", c.Name, c.Passed, c.Need, c.Found))
	}
	return strings.Join(out, "\n"), r.Fits
}

// withSchema gives the world the schema of a driver "image", and returns its digest.
func (w *world) withSchema(argument string) string {
	own, err := schema.Of(hcldec.ObjectSpec{argument: &hcldec.AttrSpec{Name: argument, Type: cty.String, Required: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.parsed == nil {
		w.parsed, w.schemas = schema.NewSet(map[string]*drivers.Kind{}), map[string]*nomad.DriverSchema{}
	}
	w.schemas[own.Digest] = &nomad.DriverSchema{Digest: own.Digest, Spec: own.Raw}
	return own.Digest
}

func TestExplain(t *testing.T) {
	group := func(j *nomad.Job) *nomad.TaskGroup { return j.TaskGroups[0] }
	for name, tc := range map[string]struct {
		node func(*nomad.Node)
		job  func(*nomad.Job)
		more func(*world)
		want []string // lines; each must be there
		fits bool
	}{
		"fits": {want: []string{`pool true node pool "default": default`, "datacenter true datacenter *: dc1",
			"node true ready and eligible: ready, eligible",
			`driver true driver "raw_exec": healthy`, "resources true cpu 100 MHz: 4000 of 4000 MHz free",
			"resources true memory 100 MiB: 8192 of 8192 MiB free",
			"resources true disk 10 MiB: 100000 of 100000 MiB free"}, fits: true},
		"pool": {node: func(n *nomad.Node) { n.NodePool = "gpu" }, want: []string{`pool false node pool "default": gpu`}},
		"datacenter": {job: func(j *nomad.Job) { j.Datacenters = []string{"eu*", "us"} },
			want: []string{"datacenter false datacenter eu*, us: dc1"}},
		"ineligible": {node: func(n *nomad.Node) { n.SchedulingEligibility = "ineligible" },
			want: []string{"node false ready and eligible: ready, ineligible"}},
		"constraint": {job: func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${attr.cpu.arch}", Operand: "=", RTarget: "arm64"},
				{LTarget: "${meta.x}", Operand: "is_set"}}
		}, want: []string{`constraint false ${attr.cpu.arch} = arm64: attr.cpu.arch is "amd64"`,
			"constraint false ${meta.x} is_set: meta.x is not set"}},
		"devices": {node: func(n *nomad.Node) {
			n.NodeResources.Devices = []*nomad.NodeDeviceResource{{Vendor: "nvidia", Type: "gpu", Name: "t4",
				Instances: []*nomad.NodeDevice{{ID: "a", Healthy: true}, {ID: "b"}}}}
		}, job: func(j *nomad.Job) {
			group(j).Tasks[0].Resources.Devices = nomad.ResourceDevices{{Name: "gpu", Count: 2,
				Constraints: nomad.Constraints{{LTarget: "${device.model}", Operand: "is_set"}}}}
		}, want: []string{"devices false 2 gpu with ${device.model} is_set: nvidia/gpu/t4: 1 healthy",
			"devices false 2 gpu with ${device.model} is_set: devices: no devices match request"}},
		"no driver": {job: func(j *nomad.Job) { group(j).Tasks[0].Driver = "docker" }, want: []string{`driver false driver "docker": `}},
		"unhealthy": {node: func(n *nomad.Node) {
			n.Drivers["raw_exec"] = &nomad.DriverInfo{Detected: true, HealthDescription: "daemon is gone"}
		}, want: []string{`driver false driver "raw_exec": daemon is gone`}},
		"volume": {job: func(j *nomad.Job) {
			group(j).Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
		}, want: []string{`volumes false host volume "data": `}},
		"volume of each": {job: func(j *nomad.Job) {
			group(j).Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", PerAlloc: true}}
		}, want: []string{`volumes false host volume "data[0]": `}},
		"network": {job: func(j *nomad.Job) { group(j).Networks = nomad.Networks{{Mode: "bridge"}} },
			want: []string{`network false network mode "bridge": `}},
		"memory": {job: func(j *nomad.Job) { group(j).Tasks[0].Resources.MemoryMB = 9000 },
			want: []string{"resources false memory 9000 MiB: 8192 of 8192 MiB free", "resources true disk"}},
		"cores": {job: func(j *nomad.Job) { group(j).Tasks[0].Resources = &nomad.Resources{Cores: 5} },
			want: []string{"resources false cores 5: 4 of 4 free"}},
		"ports": {job: func(j *nomad.Job) {
			group(j).Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "http", Value: 80}}, DynamicPorts: []nomad.Port{{Label: "x"}}}}
		}, node: func(n *nomad.Node) { n.NodeResources.NodeNetworks[0].Addresses[0].ReservedPorts = "80" },
			want: []string{"ports false http=80, 1 dynamic: network: reserved port collision http=80"}},
		"allocations": {node: func(n *nomad.Node) { n.NodeMaxAllocs = 1 }, more: func(w *world) { w.process() },
			want: []string{"resources false 1 allocation: 1 of 1 used"}},
		"distinct": {job: func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{Operand: "distinct_hosts"}} },
			more: func(w *world) { w.process() },
			want: []string{"constraint false distinct_hosts: distinct_hosts"}},
		"quota": {more: func(w *world) {
			w.quota = &quota.Spec{Name: "q",
				Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Resources{MemoryMB: new(50)}}}}
		}, job: func(j *nomad.Job) { j.Region = "global" }, want: []string{`quota false quota "q": memory`}},
		"no resources": {node: func(n *nomad.Node) { n.NodeResources = nil }, want: []string{"resources false resources: node has no resources"}},
		"config": {more: func(w *world) {
			w.addNode("n1", func(n *nomad.Node) { n.Attributes["driver.raw_exec.schema"] = w.withSchema("comand") })
		}, want: []string{`config false driver "raw_exec" accepts the config of task "t": config: "command": No argument or block type is named "command". Did you mean "comand"?`}},
		"stopped": {job: func(j *nomad.Job) { j.Stop = true }, want: []string{`pool true`}, fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var edits []func(*nomad.Node)
			if tc.node != nil {
				edits = append(edits, tc.node)
			}
			w.addNode("n1", edits...)
			j := job(nomad.JobTypeService, 1)
			if tc.job != nil {
				tc.job(j)
			}
			w.register(j)
			if tc.more != nil {
				tc.more(w)
			}
			got, fits := w.explain("n1")
			if fits != tc.fits {
				t.Errorf("fits = %t, want %t:\n%s", fits, tc.fits, got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("the checks lack %q:\n%s", want, got)
				}
			}
		})
	}
}

// TestExplainPreemption checks that a full node fits if less important allocations can make room.
func TestExplainPreemption(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.config.PreemptionConfig.ServiceSchedulerEnabled = true
	low := job(nomad.JobTypeService, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB, j.Priority = 8000, 10 })
	w.register(low)
	w.process()
	for id, a := range w.allocs {
		of := *a
		of.JobID, of.Job = "low", low
		w.allocs[id], w.byNode["n1"][id] = &of, &of
	}
	high := job(nomad.JobTypeService, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 8000 })
	w.jobs["j"] = high
	got, fits := w.explain("n1")
	if !fits || !strings.Contains(got, "resources false memory 8000 MiB: 192 of 8192 MiB free") ||
		!strings.Contains(got, "preemption true allocations of lower priority to preempt: 1") {
		t.Errorf("fits = %t:\n%s", fits, got)
	}
	high.Priority = 15
	if got, fits := w.explain("n1"); fits || !strings.Contains(got, "preemption false") {
		t.Errorf("priority 15: fits = %t:\n%s", fits, got)
	}
}

// TestExplainAgrees compares explanations with what the scheduler does: it places one more
// allocation if and only if a node fits.
func TestExplainAgrees(t *testing.T) {
	placed := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t)
		digest := w.withSchema("command")
		other := w.withSchema("image")
		for i := range 1 + rng.IntN(5) {
			w.addNode(fmt.Sprint("n", i), randomNode(rng), func(n *nomad.Node) {
				n.Attributes["driver.raw_exec.schema"] = []string{"", digest, other, "unknown"}[rng.IntN(4)]
			})
		}
		w.register(job(nomad.JobTypeBatch, rng.IntN(8), randomJob(rng), func(j *nomad.Job) { j.TaskGroups[0].Update = nil }))
		w.process()
		before := len(w.live())
		fits := false
		w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = before + 1 })
		for id := range w.nodes {
			_, ok := w.explain(id)
			fits = fits || ok
		}
		w.process()
		if got := len(w.live()) > before; got != fits {
			t.Fatalf("seed %d: placed is %t, but a node fits is %t", seed, got, fits)
		}
		if fits {
			placed++
		}
	}
	if placed < 50 || placed > 350 {
		t.Errorf("%d of 400 placed: the worlds are too similar", placed)
	}
}

// TestPlace_ConfigSchema checks that nodes whose driver does not accept the config are filtered,
// with the reason.
func TestPlace_ConfigSchema(t *testing.T) {
	w := newWorld(t)
	good, bad := w.withSchema("command"), w.withSchema("image")
	for id, digest := range map[string]string{"n1": bad, "n2": good, "n3": bad} {
		w.addNode(id, func(n *nomad.Node) { n.Attributes["driver.raw_exec.schema"] = digest })
	}
	w.register(job(nomad.JobTypeService, 2))
	w.process()
	for _, a := range w.live() {
		if a.NodeID != "n2" {
			t.Errorf("%s is on %s, want n2", a.Name, a.NodeID)
		}
	}
	if len(w.live()) != 2 {
		t.Errorf("%d allocations, want 2", len(w.live()))
	}
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"commandd": "x"} })
	e := w.process()
	m := e.FailedTGAllocs["g"]
	const want = `task "t": config: "commandd": No argument or block type is named "commandd"`
	if m == nil || m.NodesFiltered != 3 {
		t.Fatalf("metric = %+v, want 3 nodes filtered", m)
	}
	for reason := range m.ConstraintFiltered {
		if !strings.HasPrefix(reason, want) {
			t.Errorf("reason %q, want %q", reason, want)
		}
	}
}
