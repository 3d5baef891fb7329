package jobs

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// servers is a Service with a state.
type servers struct {
	*Service
	t     testing.TB
	store *state.Store
	index uint64
}

func newServers(t testing.TB) *servers {
	store := state.New(slog.New(slog.DiscardHandler))
	core := handler.New(handler.Config{Region: "global", Kinds: table, Schemas: schema.NewSet(drivers.Table()), Cluster: alone{},
		Store: func() *state.Store { return store }})
	admitter := admission.New(admission.Config{Region: "global", Kinds: table, Schemas: core.Schemas})
	return &servers{Service: New(core, nil, nil, Config{Admission: admitter}), t: t, store: store, index: 10}
}

// alone is a cluster of one server, which is the leader.
type alone struct{ handler.Cluster }

func (alone) Contact() (known bool, ago time.Duration) { return true, 0 }

// versions are schemas of a driver "image", by version. The last one is not sent to the servers.
var versions = map[string]hcldec.ObjectSpec{
	"v1": {"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true}},
	"v2": {"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true},
		"init": &hcldec.AttrSpec{Name: "init", Type: cty.Bool}},
	"v3": {"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true},
		"inits": &hcldec.AttrSpec{Name: "inits", Type: cty.Bool}},
	"unknown": {"any": &hcldec.AttrSpec{Name: "any", Type: cty.String}},
}

// node adds a node whose driver "image" has a version of the schema, or none.
func (s *servers) node(version string, edit ...func(*nomad.Node)) {
	s.t.Helper()
	n := &nomad.Node{ID: nomad.NewID(), Datacenter: "dc1", NodePool: "default", Status: "down",
		Attributes: map[string]string{"kernel.name": "linux"},
		Drivers:    map[string]*nomad.DriverInfo{"image": {Detected: true}, "raw_exec": {Detected: true}}}
	var own schema.Schema
	if version != "" {
		var err error
		if own, err = schema.Of(versions[version]); err != nil {
			s.t.Fatal(err)
		}
		n.Attributes["driver.image.schema"] = own.Digest
	}
	for _, f := range edit {
		f(n)
	}
	n.ComputedClass = nodeclass.Of(n)
	s.index += 2
	_, err := s.store.RegisterNode(s.index, &message.NodeRegisterRequest{Node: n, CreateNodePool: true})
	if version != "" && version != "unknown" && err == nil {
		_, err = s.store.UpsertDriverSchemas(s.index+1, &message.DriverSchemaUpsertRequest{NodeID: n.ID,
			Schemas: []*nomad.DriverSchema{{Digest: own.Digest, Spec: own.Raw}}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// configJob returns a canonical job with one task.
func configJob(driver string, config map[string]any, edit ...func(*nomad.Job)) *nomad.Job {
	job := &nomad.Job{ID: "j", Name: "j", Region: "global", Type: nomad.JobTypeBatch, Priority: 50, NodePool: "default",
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1,
			Tasks: []*nomad.Task{{Name: "t", Driver: driver, Config: config}}}}}
	for _, f := range edit {
		f(job)
	}
	jobrules.Canonicalize(job)
	return job
}

func TestCheckConfigs(t *testing.T) {
	type config = map[string]any
	image := func(more string) config { return config{"image": "x", more: true} }
	in := func(pool string) func(*nomad.Node) { return func(n *nomad.Node) { n.NodePool = pool } }
	privileged := func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Privileged = true }
	const place = `job "j", group "g", task "t": driver `
	for name, tc := range map[string]struct {
		nodes func(*servers)
		job   *nomad.Job
		wrong []string // parts of the errors
		warn  string   // part of the only warning
	}{
		"accepted": {nodes: func(s *servers) { s.node("v2") }, job: configJob("image", image("init"))},
		"a reference for a bool": {nodes: func(s *servers) { s.node("v2") },
			job: configJob("image", config{"image": "${meta.x}", "init": "${NOMAD_META_init}"})},
		"no node takes it": {nodes: func(s *servers) { s.node("v2"); s.node("v2") }, job: configJob("image", image("innit")),
			wrong: []string{place + `"image": config: "innit": No argument or block type is named "innit". Did you mean "init"?`}},
		"two faults": {nodes: func(s *servers) { s.node("v2") }, job: configJob("image", config{"init": "x", "image": []any{1}}),
			wrong: []string{`"init"`, `"image": config: "image"`}},
		"the most frequent fault": {nodes: func(s *servers) { s.node("v2"); s.node("v3"); s.node("v3") },
			job: configJob("image", image("initz")), wrong: []string{`Did you mean "init`}},
		"some nodes take it": {nodes: func(s *servers) { s.node("v1"); s.node("v1"); s.node("v2") }, job: configJob("image", image("init")),
			warn: `"image": 2 of 3 nodes do not accept the config and are not used: config: "init"`},
		"a node without schema": {nodes: func(s *servers) { s.node("v1"); s.node("") }, job: configJob("image", image("init")),
			warn: "1 of 2 nodes"},
		"only without schema": {nodes: func(s *servers) { s.node("") }, job: configJob("image", config{"x": 1})},
		"not sent yet":        {nodes: func(s *servers) { s.node("unknown") }, job: configJob("image", config{"x": 1})},
		"other pool":          {nodes: func(s *servers) { s.node("v1", in("gpu")); s.node("v2") }, job: configJob("image", image("init"))},
		"all pools": {nodes: func(s *servers) { s.node("v1", in("gpu")); s.node("v2") },
			job: configJob("image", image("init"), func(j *nomad.Job) { j.NodePool = "all" }), warn: "1 of 2 nodes"},
		"other datacenter": {nodes: func(s *servers) { s.node("v1", func(n *nomad.Node) { n.Datacenter = "eu1" }); s.node("v2") },
			job: configJob("image", image("init"), func(j *nomad.Job) { j.Datacenters = []string{"dc*"} })},
		"constraint": {nodes: func(s *servers) {
			s.node("v1", func(n *nomad.Node) { n.Attributes["kernel.name"] = "freebsd" })
			s.node("v2")
		}, job: configJob("image", image("init"), func(j *nomad.Job) {
			j.TaskGroups[0].Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
		})},
		"constraint on one node": {nodes: func(s *servers) { s.node("v1"); s.node("v2") }, warn: "1 of 2 nodes",
			job: configJob("image", image("init"), func(j *nomad.Job) {
				j.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: "x"}}
			})},
		"built-in, no node": {nodes: func(*servers) {}, job: configJob("raw_exec", config{"comand": "x"}, privileged),
			wrong: []string{`"raw_exec": config: "comand": No argument or block type is named "comand". Did you mean "command"?`,
				`The argument "command" is required`}},
		"built-in, fine":          {nodes: func(*servers) {}, job: configJob("raw_exec", config{"command": "x"}, privileged)},
		"built-in, older node":    {nodes: func(s *servers) { s.node("") }, job: configJob("raw_exec", config{"comand": "x"})},
		"unknown driver, no node": {nodes: func(*servers) {}, job: configJob("image", config{"comand": "x"})},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServers(t)
			tc.nodes(s)
			warns, err := s.admission.At(s.Snapshot()).Validate(admission.Asker{}, tc.job)
			if got := admission.Faults(err); len(got) != len(tc.wrong) {
				t.Fatalf("errors %v, want %d", got, len(tc.wrong))
			}
			for _, want := range tc.wrong {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if got := strings.Join(warns, "\n"); (got == "") != (tc.warn == "") || !strings.Contains(got, tc.warn) || len(warns) > 1 {
				t.Errorf("warnings %q, want %q", got, tc.warn)
			}
		})
	}
}

// TestCheckWithoutServers checks the built-in schemas in commands.
func TestCheckWithoutServers(t *testing.T) {
	errs, _ := admission.Check(configJob("raw_exec", map[string]any{"comand": "x"}), table)
	if len(errs) != 2 || !strings.Contains(errs[0], `Did you mean "command"?`) {
		t.Errorf("Check() = %q, want the unknown and the missing argument", errs)
	}
	errs, _ = admission.Check(configJob("exec2", map[string]any{"comand": "x"}), table)
	if len(errs) == 0 || !strings.Contains(errs[0], `did you mean "command"?`) {
		t.Errorf("Check() of exec2 = %q, want the nearest name", errs)
	}
}

// BenchmarkCheckConfigs measures what the validation of a job costs more with 1000 nodes of one schema.
func BenchmarkCheckConfigs(b *testing.B) {
	for _, nodes := range []int{1, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := newServers(b)
			for range nodes {
				s.node("v2")
			}
			job := configJob("image", map[string]any{"image": "x", "init": true})
			for b.Loop() {
				if warns, err := s.admission.At(s.Snapshot()).Validate(admission.Asker{}, job); err != nil || len(warns) > 0 {
					b.Fatal(warns, err)
				}
			}
		})
	}
}
