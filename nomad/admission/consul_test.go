package admission

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// ofConsul returns a job with a service of Consul and a consul block in its group and in its task, as servers of Nomad store it.
func ofConsul() *nomad.Job {
	job := testjobs.Exec2(func(t *nomad.Task) {
		t.Services = []*nomad.Service{{Name: "db", Provider: "consul", Cluster: "default"}}
		t.Constraints = []*nomad.Constraint{{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0", Operand: "semver"}}
	})
	tg := job.TaskGroups[0]
	tg.Consul, tg.Tasks[0].Consul = &nomad.Consul{}, &nomad.Consul{}
	tg.Services = []*nomad.Service{{Name: "web", Provider: "consul", Checks: []*nomad.ServiceCheck{{Type: "grpc"}}},
		{Name: "own", Provider: "nomad"}}
	tg.Constraints = []*nomad.Constraint{{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0", Operand: "semver"}, {LTarget: "x"}}
	return job
}

// writing returns a write of a job in a region with a setting.
func writing(setting consul.Mode, who Asker, job *nomad.Job) *write {
	a := New(Config{Region: "global", Open: true, Consul: consul.NewServices(consul.Config{Setting: setting})})
	return &write{View: a.At(state.New(nil).Snapshot()), who: who, job: job}
}

func anyone() *rpc.Access { return &rpc.Access{Rights: acl.Everything, Disabled: true} }

// providers returns the declared and the stored provider of each service.
func providers(job *nomad.Job) (out []string) {
	for _, s := range job.TaskGroups[0].AllServices() {
		out = append(out, s.Name+" "+s.Declared()+" "+s.Provider)
	}
	return out
}

// TestMapServices_Needs checks that servers without Consul refuse what only Consul has, by name.
func TestMapServices_Needs(t *testing.T) {
	for _, setting := range []consul.Mode{consul.Native, consul.Refuse} {
		job := testjobs.Exec2(func(task *nomad.Task) { task.Kind = "connect-proxy:web" })
		job.TaskGroups[0].Consul = &nomad.Consul{Namespace: "a"}
		w := writing(setting, Author(job), job)
		if err := w.consul(); err != nil {
			t.Fatal(err)
		}
		got := w.consulFaults(w.who, w.job)
		if len(got) != 2 || !strings.Contains(got[0].Error(), "Consul namespaces are not supported by servers without Consul") ||
			!strings.Contains(got[1].Error(), "Consul Connect task kinds are not") {
			t.Errorf("%s: consulFaults() = %v", setting, got)
		}
	}
}

// TestMapServices checks the services, the constraints and the warning of a mapped job.
func TestMapServices(t *testing.T) {
	job := ofConsul()
	w := writing(consul.Native, Caller(anyone()), job)
	if err := w.consul(); err != nil {
		t.Fatal(err)
	}
	if got, want := providers(job), []string{"web consul nomad", "own nomad nomad", "db consul nomad"}; !slices.Equal(got, want) {
		t.Errorf("providers = %q, want %q", got, want)
	}
	want := `job "j": services with provider "consul" are registered natively, not in Consul: "web" of group "g", "db" of group "g" ` +
		`(services-without-consul)`
	if w.mapped != want {
		t.Errorf("warning = %q, want %q", w.mapped, want)
	}
	tg := job.TaskGroups[0]
	var targets []string
	for _, c := range tg.Constraints {
		targets = append(targets, c.LTarget)
	}
	if want := []string{"x", "${attr.nomad.service_discovery}", "${attr.nomad.version}", "${attr.driver.exec2.backend}"}; !slices.Equal(targets, want) {
		t.Errorf("constraints of the group = %q, want %q", targets, want)
	}
	if got := tg.Tasks[0].Constraints; got != nil {
		t.Errorf("constraints of the task = %v, want none", got)
	}
	if got := w.consulFaults(w.who, w.job); len(got) > 0 {
		t.Errorf("consulFaults() = %v", got)
	}
}

// TestMapServices_Again checks that the result is the same for a job that was read from the API, and for a stored one.
func TestMapServices_Again(t *testing.T) {
	mapped := ofConsul()
	if err := writing("", Caller(anyone()), mapped).consul(); err != nil {
		t.Fatal(err)
	}
	for name, who := range map[string]Asker{"submitted": Caller(anyone()), "planned": Planner(anyone()), "child": Author(mapped),
		"scaled": For(anyone(), mapped), "reverted": Reverter(anyone(), mapped)} {
		again := codec.Copy(mapped)
		w := writing("", who, again)
		if err := w.consul(); err != nil || !reflect.DeepEqual(again, mapped) {
			t.Errorf("%s: %v, services %q", name, err, providers(again))
		}
		if (w.mapped != "") != who.wrote() {
			t.Errorf("%s: warning = %q", name, w.mapped)
		}
		// After the operator has chosen another mode, what is derived from the stored version runs like it.
		w = writing(consul.Refuse, who, codec.Copy(mapped))
		if err := w.consul(); err != nil {
			t.Fatal(err)
		}
		if refused := len(w.consulFaults(w.who, w.job)) > 0; refused != who.wrote() {
			t.Errorf("%s in mode refuse: refused = %v", name, refused)
		}
	}
	// A version that another build stored with provider "consul" is mapped by a revert and for a comparison.
	w := writing("", Reverter(anyone(), mapped), ofConsul())
	if err := w.consul(); err != nil || !reflect.DeepEqual(w.job, mapped) {
		t.Errorf("reverted to the version of another build: %v, services %q", err, providers(w.job))
	}
	stored := ofConsul()
	if got := w.Comparable(stored); !reflect.DeepEqual(got, mapped) {
		t.Errorf("Comparable() = %q", providers(got))
	}
	if !reflect.DeepEqual(stored, ofConsul()) {
		t.Error("Comparable() changed the stored version")
	}
}

// TestConsulRefused checks the errors of servers that refuse what needs Consul.
func TestConsulRefused(t *testing.T) {
	job := ofConsul()
	const why = `the servers refuse what needs Consul (consul = "refuse" in their services block)`
	w := writing(consul.Refuse, Caller(anyone()), codec.Copy(job))
	if err := w.consul(); err != nil {
		t.Fatal(err)
	}
	if got := providers(w.job); !slices.Equal(got, providers(job)) || w.mapped != "" {
		t.Errorf("providers = %q, warning %q", got, w.mapped)
	}
	var text []string
	for _, err := range w.consulFaults(w.who, w.job) {
		text = append(text, err.Error())
	}
	want := []string{
		`job "j", group "g", service "web": provider is "consul", which is the default, but ` + why +
			`: set provider = "nomad", or consul = "nomad" in the services block of all servers`,
		`job "j", group "g", service "db": provider`, `job "j", group "g": it has a consul block, but `,
		`job "j", group "g", task "t": it has a consul block, but `}
	if len(text) != len(want) || text[0] != want[0] {
		t.Fatalf("errors = %q", text)
	}
	for i := range want {
		if !strings.HasPrefix(text[i], want[i]) {
			t.Errorf("error %d = %q, want %q", i, text[i], want[i])
		}
	}
}

// TestNativeFaults checks what must change in the file of a stored job before servers without Consul accept it, and that the
// job remains as it is.
func TestNativeFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*nomad.Job, *nomad.TaskGroup)
		want   string
	}{
		"nothing":          {func(*nomad.Job, *nomad.TaskGroup) {}, ""},
		"its own faults":   {func(j *nomad.Job, tg *nomad.TaskGroup) { tg.Name, tg.Count = "", -1 }, ""},
		"connect":          {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Services[0].Connect = &nomad.ConsulConnect{} }, "connect is a feature of Consul"},
		"task of the mesh": {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Tasks[0].Kind = "connect-proxy:web" }, ""},
		"kind":             {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Services[0].Kind = "mesh-gateway" }, "kind is a feature of Consul"},
		"name":             {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Services[0].Name = "a_b" }, "the name is malformed"},
		"namespace":        {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Consul.Namespace = "team" }, "Consul namespaces are not supported"},
		"no tasks":         {func(_ *nomad.Job, tg *nomad.TaskGroup) { tg.Tasks, tg.RestartPolicy = nil, nil }, ""},
	} {
		job := ofConsul()
		job.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: "consul"}}
		c.change(job, job.TaskGroups[0])
		before := codec.Copy(job)
		got := NativeFaults(job)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Error(), c.want)) {
			t.Errorf("%s: NativeFaults() = %v, want %q", name, got, c.want)
		}
		if !reflect.DeepEqual(job, before) {
			t.Errorf("%s: NativeFaults() changes the job", name)
		}
	}
}
