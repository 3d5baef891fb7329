package service_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

var node = &nomad.Node{ID: "n1", Name: "box", Datacenter: "dc1", Attributes: map[string]string{"kernel.name": "linux"}}

// placed returns an allocation with a group service and a task service.
func placed(group, task *nomad.Service) *nomad.Allocation {
	tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "t", Env: map[string]string{"ROLE": "db"}}}}
	if group != nil {
		tg.Services = []*nomad.Service{group}
	}
	if task != nil {
		tg.Tasks[0].Services = []*nomad.Service{task}
	}
	return &nomad.Allocation{ID: "a1", Namespace: "prod", JobID: "web", TaskGroup: "g", Name: "web.g[2]",
		Job: &nomad.Job{ID: "web", Name: "web", Meta: map[string]string{"tier": "front"}, TaskGroups: []*nomad.TaskGroup{tg}},
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{"t": {}},
			Shared: nomad.AllocatedSharedResources{Networks: nomad.Networks{{IP: "10.0.0.1"}},
				Ports: nomad.AllocatedPorts{{Label: "http", Value: 23000, To: 80, HostIP: "10.0.0.1"}}}}}
}

func TestGroupRegistration(t *testing.T) {
	a := placed(&nomad.Service{Name: "web-${NOMAD_META_tier}", Provider: "nomad", PortLabel: "http",
		Tags: []string{"i${NOMAD_ALLOC_INDEX}", "${attr.kernel.name}", "${NOMAD_TASK_NAME}"}, CanaryTags: []string{"canary"}}, nil)
	w := service.OfGroup(a, node, "global", nil)
	got, err := w.Registrations()
	if err != nil {
		t.Fatal(err)
	}
	want := []*catalog.Registration{{
		ID: "_nomad-task-a1-group-g-web-front-http", ServiceName: "web-front", Namespace: "prod", NodeID: "n1", Datacenter: "dc1",
		JobID: "web", AllocID: "a1", Tags: []string{"i2", "linux", "${NOMAD_TASK_NAME}"}, Address: "10.0.0.1", Port: 23000,
		Meta: map[string]string{"external-source": "nomad"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("registrations = %+v, want %+v", got[0], want[0])
	}
	a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
	if got, err = w.Registrations(); err != nil || !reflect.DeepEqual(got[0].Tags, []string{"canary"}) {
		t.Errorf("tags of a canary = %v, %v", got, err)
	}
}

func TestTaskRegistration(t *testing.T) {
	a := placed(nil, &nomad.Service{Name: "db-${ROLE}", Provider: "nomad", PortLabel: "http", Address: "${NOMAD_META_tier}.example.com"})
	task := a.Job.TaskGroups[0].Tasks[0]
	env := taskenv.New(taskenv.Subject{Node: node, Region: "global", Alloc: a, Task: task}).Build()
	w := service.OfTask(a, node, task, env)
	got, err := w.Registrations()
	if err != nil {
		t.Fatal(err)
	}
	if r := got[0]; r.ID != "_nomad-task-a1-t-db-db-http" || r.ServiceName != "db-db" || r.Address != "front.example.com" || r.Port != 23000 ||
		len(r.Tags) != 0 {
		t.Errorf("registration = %+v", r)
	}
}

func TestInvalidRegistrations(t *testing.T) {
	for _, tc := range []struct {
		name    string
		service nomad.Service
		want    string
	}{
		{"address of all interfaces", nomad.Service{Name: "web", Address: "0.0.0.0"}, "unable to get address for service \"web\": 0.0.0.0"},
		{"address of all IPv6 interfaces", nomad.Service{Name: "web", Address: "::"}, "unable to get address"},
		{"port", nomad.Service{Name: "web", PortLabel: "nope"}, `unable to get address for service "web": invalid port: "nope"`},
		{"name after interpolation", nomad.Service{Name: "web_${NOMAD_META_tier}"}, `service "web_front": the name`},
		{"name that stays a reference", nomad.Service{Name: "web-${nope}"}, "the name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.service
			s.Provider = "nomad"
			w := service.OfGroup(placed(&s, nil), node, "global", nil)
			if _, err := w.Registrations(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// The addresses of the allocation's network namespace are known to the services of the group.
func TestGroupNetworkVariables(t *testing.T) {
	a := placed(&nomad.Service{Name: "web", Provider: "nomad", PortLabel: "http", Tags: []string{"${NOMAD_ALLOC_IP_http}"}}, nil)
	w := service.OfGroup(a, node, "global", &nomad.AllocNetworkStatus{InterfaceName: "eth0", Address: "172.26.64.9"})
	got, err := w.Registrations()
	if err != nil || got[0].Tags[0] != "172.26.64.9" {
		t.Errorf("registrations = %+v, %v; want the tag 172.26.64.9", got, err)
	}
}
