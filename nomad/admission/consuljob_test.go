package admission

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// inRegion returns a write of a job in a region with Consul, whose servers have identities.
func inRegion(cfg consul.Config, who Asker, job *nomad.Job) *write {
	cfg.Setting = consul.Consul
	a := New(Config{Region: "global", Open: true, Consul: consul.NewServices(cfg)})
	return &write{View: a.At(state.New(nil).Snapshot()), who: who, job: job}
}

var withIdentities = consul.Config{
	ServiceIdentity: &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour},
	TaskIdentity:    &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: 2 * time.Hour, Env: true, ExtraClaims: []string{"a"}},
}

// groupOf returns a canonical job with a group that edit changes.
func groupOf(edit func(tg *nomad.TaskGroup, task *nomad.Task)) *nomad.Job {
	job := testjobs.Exec2(func(*nomad.Task) {})
	job.TaskGroups[0].Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	edit(job.TaskGroups[0], job.TaskGroups[0].Tasks[0])
	jobrules.Canonicalize(job)
	return job
}

// shown describes the constraints, the identities and the clusters of a group.
func shown(tg *nomad.TaskGroup) (out []string) {
	constraints := func(of string, list []*nomad.Constraint) {
		for _, c := range list {
			out = append(out, of+" "+c.LTarget+" "+c.Operand+" "+c.RTarget)
		}
	}
	identity := func(of string, id *nomad.WorkloadIdentity) {
		if id != nil {
			out = append(out, of+" "+id.Name+" "+strings.Join(id.Audience, ",")+" "+id.TTL.String()+" "+id.ServiceName+" "+id.Alg)
		}
	}
	constraints("group", tg.Constraints)
	for _, t := range tg.Tasks {
		constraints(t.Name, t.Constraints)
		for _, id := range t.Identities {
			identity(t.Name, id)
		}
	}
	for _, s := range tg.AllServices() {
		identity(s.Name, s.Identity)
	}
	return out
}

const (
	wantConsul = "${attr.consul.version} semver >= 1.8.0"
	wantNomad  = "${attr.nomad.version} semver >= 1.7.0-a"
)

// consulJobs are the jobs of the tests: what the servers add to them.
var consulJobs = map[string]struct {
	edit func(tg *nomad.TaskGroup, t *nomad.Task)
	cfg  consul.Config
	want []string
}{
	"nothing": {func(*nomad.TaskGroup, *nomad.Task) {}, withIdentities, nil},
	"native": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
		tg.Services = []*nomad.Service{{Name: "web", Provider: "nomad"}}
	}, withIdentities, nil},
	"group": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
		tg.Services = []*nomad.Service{{Name: "web", PortLabel: "http"}}
	}, withIdentities, []string{"group " + wantConsul, "group " + wantNomad, "web consul-service_web-http consul.io 1h0m0s web RS256"}},
	"group without identities": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
		tg.Services = []*nomad.Service{{Name: "web", PortLabel: "http"}}
		tg.Consul = &nomad.Consul{}
	}, consul.Config{}, []string{"group " + wantConsul}},
	"task": {func(_ *nomad.TaskGroup, t *nomad.Task) {
		t.Services = []*nomad.Service{{Name: "${meta.x}", PortLabel: "http"}}
	}, withIdentities, []string{"group " + wantNomad, "t " + wantConsul,
		"${meta.x} consul-service_t-${meta.x}-http consul.io 1h0m0s ${meta.x} RS256"}},
	"own constraint": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
		tg.Services = []*nomad.Service{{Name: "web"}}
		tg.Constraints = []*nomad.Constraint{{LTarget: "${attr.consul.version}", RTarget: ">= 1.20.0", Operand: "semver"}}
	}, consul.Config{}, []string{"group ${attr.consul.version} semver >= 1.20.0"}},
	"own identity": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
		tg.Services = []*nomad.Service{{Name: "web", Identity: &nomad.WorkloadIdentity{Name: "x", Audience: []string{"y"}, Alg: "EdDSA"}}}
	}, consul.Config{}, []string{"group " + wantConsul, "group " + wantNomad, "web consul-service_web- y 0s web EdDSA"}},
	"consul block of the group": {func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Consul = &nomad.Consul{} }, withIdentities,
		[]string{"group " + wantNomad, "t consul_default consul.io 2h0m0s  RS256"}},
	"consul block of the task": {func(_ *nomad.TaskGroup, t *nomad.Task) { t.Consul = &nomad.Consul{} }, withIdentities,
		[]string{"group " + wantNomad, "t consul_default consul.io 2h0m0s  RS256"}},
	"own task identity": {func(_ *nomad.TaskGroup, t *nomad.Task) {
		t.Consul = &nomad.Consul{}
		t.Identities = []*nomad.WorkloadIdentity{{Name: "consul_default", Audience: []string{"y"}}}
	}, withIdentities, []string{"group " + wantNomad, "t consul_default y 0s  RS256"}},
	"partition": {func(tg *nomad.TaskGroup, t *nomad.Task) {
		tg.Consul, t.Consul = &nomad.Consul{Partition: "p"}, &nomad.Consul{Partition: "p"}
	}, consul.Config{}, []string{"group ${attr.consul.partition} = p", "t ${attr.consul.partition} = p"}},
}

// TestToConsul checks what the servers add to a job, and that the result is stored as it is when it is registered again.
func TestToConsul(t *testing.T) {
	for name, c := range consulJobs {
		t.Run(name, func(t *testing.T) {
			job := groupOf(c.edit)
			w := inRegion(c.cfg, Caller(anyone()), job)
			if err := w.consul(); err != nil {
				t.Fatal(err)
			}
			if got := shown(job.TaskGroups[0]); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			for _, s := range job.TaskGroups[0].AllServices() {
				if want := map[string]string{"consul": "default"}[s.Provider]; s.Cluster != want {
					t.Errorf("cluster of service %s = %q, want %q", s.Name, s.Cluster, want)
				}
			}
			if got := w.consulFaults(w.who, job); len(got) > 0 {
				t.Errorf("consulFaults() = %v", got)
			}
			if err := jobrules.Validate(job); err != nil {
				t.Errorf("Validate() = %v", err)
			}
			for who, asker := range map[string]Asker{"submitted": Caller(anyone()), "planned": Planner(anyone()),
				"reverted": Reverter(anyone(), job), "scaled": For(anyone(), job)} {
				again := codec.Copy(job)
				jobrules.Canonicalize(again)
				if err := inRegion(c.cfg, asker, again).consul(); err != nil || !reflect.DeepEqual(again, job) {
					t.Errorf("%s again: %v, %q", who, err, shown(again.TaskGroups[0]))
				}
			}
		})
	}
}

// TestToConsul_Stored checks that a version that is derived from a stored one remains as it was stored, after the region has
// got Consul and after it lost it.
func TestToConsul_Stored(t *testing.T) {
	job := groupOf(consulJobs["group"].edit)
	for _, who := range []Asker{Author(job), For(anyone(), job)} {
		derived := codec.Copy(job)
		if err := inRegion(withIdentities, who, derived).consul(); err != nil || !reflect.DeepEqual(derived, job) {
			t.Errorf("derived: %v, %q", err, shown(derived.TaskGroups[0]))
		}
	}
	mapped := codec.Copy(job)
	if err := writing(consul.Native, Caller(anyone()), mapped).consul(); err != nil {
		t.Fatal(err)
	}
	scaled := codec.Copy(mapped)
	if err := inRegion(withIdentities, For(anyone(), mapped), scaled).consul(); err != nil || !reflect.DeepEqual(scaled, mapped) {
		t.Errorf("scaled: %v, %q", err, providers(scaled))
	}
	// A new registration is for Consul, with its namespace.
	again := codec.Copy(mapped)
	if err := inRegion(withIdentities, Caller(anyone()), again).consul(); err != nil {
		t.Fatal(err)
	}
	if s := again.TaskGroups[0].Services[0]; s.Provider != "consul" || s.Namespace != "default" || s.Identity == nil {
		t.Errorf("registered again: %+v", s)
	}
}

// TestToConsul_Faults checks the errors of servers with Consul.
func TestToConsul_Faults(t *testing.T) {
	const cluster = "non-default Consul cluster requires Nomad Enterprise"
	for name, c := range map[string]struct {
		edit func(tg *nomad.TaskGroup, t *nomad.Task)
		want string
	}{
		"cluster of a service": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
			tg.Services = []*nomad.Service{{Name: "web", Cluster: "west"}}
		}, cluster},
		"cluster of a group": {func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Consul = &nomad.Consul{Cluster: "west"} }, cluster},
		"cluster of a task":  {func(_ *nomad.TaskGroup, t *nomad.Task) { t.Consul = &nomad.Consul{Cluster: "west"} }, cluster},
		"partitions": {func(tg *nomad.TaskGroup, t *nomad.Task) {
			tg.Consul, t.Consul = &nomad.Consul{Partition: "b"}, &nomad.Consul{Partition: "a"}
		}, `task.consul.partition "a" must match group.consul.partition "b" if both are set`},
		"providers": {func(tg *nomad.TaskGroup, t *nomad.Task) {
			tg.Services, t.Services = []*nomad.Service{{Name: "web"}}, []*nomad.Service{{Name: "db", Provider: "nomad"}}
		}, "Multiple service providers used: task group services must use the same provider"},
		"audience": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
			tg.Services = []*nomad.Service{{Name: "web", Identity: &nomad.WorkloadIdentity{}}}
		}, "Service identity must provide at least one target aud value"},
		"kind": {func(tg *nomad.TaskGroup, _ *nomad.Task) {
			tg.Services = []*nomad.Service{{Name: "web", Kind: "x"}}
		}, "Service web kind must be one of consul service kind or empty"},
	} {
		t.Run(name, func(t *testing.T) {
			job := groupOf(c.edit)
			w := inRegion(consul.Config{}, Caller(anyone()), job)
			if err := w.consul(); err != nil {
				t.Fatal(err)
			}
			_, err := w.Validate(w.who, job)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Validate() = %v, want only %q", err, c.want)
			}
		})
	}
}

// TestToConsul_Names checks which names of services with an identity are refused, and which cause a warning.
func TestToConsul_Names(t *testing.T) {
	const refused, warned = "the servers sign no identity for service", "the node chooses the name of service"
	for name, want := range map[string]string{
		"web": "", "${NOMAD_JOB_NAME}-${NOMAD_ALLOC_INDEX}": "", "${NOMAD_ALLOC_ID}": "", "${NOMAD_META_later}": "", "${node.unique.id}": "",
		"${COLOR}": "", "web-${HOME}": "", "web-${meta.x}": "", "${NOMAD_PORT_http}": "", "${FROM_NODE}": warned,
		"${meta.x}": warned, "${attr.a}-${NOMAD_DC}": warned, "${HOME}": refused, "${meta.x}-${HOME}": refused,
	} {
		for _, cfg := range []consul.Config{withIdentities, {}} {
			job := groupOf(func(tg *nomad.TaskGroup, task *nomad.Task) {
				task.Env = map[string]string{"COLOR": "red", "FROM_NODE": "${node.class}"}
				task.Services = []*nomad.Service{{Name: name, PortLabel: "http"}}
			})
			w := inRegion(cfg, Caller(anyone()), job)
			if err := w.consul(); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, text := range append(w.Warnings(job), Faults(errors.Join(w.consulFaults(w.who, job)...))...) {
				for _, about := range []string{refused, warned} {
					if strings.Contains(text, about) {
						got += about
					}
				}
			}
			if cfg.ServiceIdentity == nil {
				want = ""
			}
			if got != want {
				t.Errorf("%s, with identity %t: %q, want %q", name, cfg.ServiceIdentity != nil, got, want)
			}
		}
	}
}

// TestToConsul_InPlace checks which changes of a stored job replace running allocations.
func TestToConsul_InPlace(t *testing.T) {
	stored := func(cfg consul.Config, edit func(tg *nomad.TaskGroup, t *nomad.Task)) *nomad.Job {
		job := groupOf(func(tg *nomad.TaskGroup, task *nomad.Task) {
			tg.Networks[0].Mode, tg.Consul = "bridge", &nomad.Consul{}
			tg.Services = []*nomad.Service{{Name: "web", PortLabel: "http"}}
			edit(tg, task)
		})
		if err := inRegion(cfg, Caller(anyone()), job).consul(); err != nil {
			t.Fatal(err)
		}
		return job
	}
	plain := func(*nomad.TaskGroup, *nomad.Task) {}
	meshed := func(change func(*nomad.ConsulConnect)) func(*nomad.TaskGroup, *nomad.Task) {
		return func(tg *nomad.TaskGroup, _ *nomad.Task) {
			tg.Services[0].Connect = &nomad.ConsulConnect{SidecarService: &connect.SidecarService{Proxy: &connect.Proxy{}}}
			change(tg.Services[0].Connect)
		}
	}
	none := consul.Config{}
	onlyServices := consul.Config{ServiceIdentity: withIdentities.ServiceIdentity}
	onlyTasks := consul.Config{TaskIdentity: withIdentities.TaskIdentity}
	sidecar := meshed(func(*nomad.ConsulConnect) {})
	for name, c := range map[string]struct {
		was, is  consul.Config
		old, new func(tg *nomad.TaskGroup, t *nomad.Task)
		replaced bool
	}{
		"nothing":            {none, none, plain, plain, false},
		"service identities": {none, onlyServices, plain, plain, false},
		"task identities":    {none, onlyTasks, plain, plain, true},
		"another ttl":        {onlyTasks, consul.Config{TaskIdentity: &nomad.WorkloadIdentity{Audience: []string{"x"}}}, plain, plain, true},
		"provider":           {none, none, plain, func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Services[0].Provider = "nomad" }, false},
		"tags":               {none, none, plain, func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Services[0].Tags = []string{"a"} }, false},
		"check": {none, none, plain, func(tg *nomad.TaskGroup, _ *nomad.Task) {
			tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "tcp"}}
		}, false},
		"namespace": {none, none, plain, func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Consul.Namespace = "a" }, false},
		"partition": {none, none, plain, func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.Consul.Partition = "a" }, true},
		"connect":   {none, none, plain, sidecar, true},
		"upstreams": {none, none, sidecar, meshed(func(c *nomad.ConsulConnect) {
			c.SidecarService.Proxy.Upstreams = []connect.Upstream{{DestinationName: "db", LocalBindPort: 1}}
		}), false},
		"tags of the sidecar": {none, none, sidecar, meshed(func(c *nomad.ConsulConnect) { c.SidecarService.Tags = []string{"a"} }), false},
		"port of the sidecar": {none, none, sidecar, meshed(func(c *nomad.ConsulConnect) { c.SidecarService.Port = "http" }), true},
		"sidecar_task":        {none, none, sidecar, meshed(func(c *nomad.ConsulConnect) { c.SidecarTask = &nomad.SidecarTask{User: "u"} }), true},
	} {
		was, is := stored(c.was, c.old), stored(c.is, c.new)
		if got := reconcile.GroupChanged(was, was.TaskGroups[0], is, is.TaskGroups[0]); got != c.replaced {
			t.Errorf("%s: replaced = %v, want %v", name, got, c.replaced)
		}
	}
}
