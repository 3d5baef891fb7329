package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// meshJob returns a job without allocations that has a service with a connect block in a network of the mode.
func meshJob(mode string, c *nomad.ConsulConnect) *nomad.Job {
	j := servertest.BatchJob("mesh", 0)
	tg := j.TaskGroups[0]
	tg.Networks = nomad.Networks{{Mode: mode}}
	tg.Tasks[0].Driver, tg.Tasks[0].Config = "exec2", map[string]any{"command": "/bin/true"}
	tg.Services = []*nomad.Service{{Name: "api", PortLabel: "9001", Provider: "consul", Connect: c}}
	return j
}

func sidecarOf(t *nomad.SidecarTask) *nomad.ConsulConnect {
	return &nomad.ConsulConnect{SidecarService: &connect.SidecarService{}, SidecarTask: t}
}

func withConsul(c *server.Config) { c.Kinds, c.Consul.Setting = drivers.Table(), consul.Consul }

// TestMesh_Rights checks that the tasks that the servers add need the same rights as those of a job file.
func TestMesh_Rights(t *testing.T) {
	g := servertest.StartACL(t, withConsul)
	const write = `namespace "default" { policy = "write" }`
	writer := g.TokenWith(write)
	privileged := g.TokenWith(`namespace "default" {` + "\npolicy = \"write\"\ncapabilities = [\"privileged-execution\"]\n}")
	onHost := &nomad.ConsulConnect{Gateway: &connect.Gateway{Mesh: &connect.MeshConfigEntry{}}}
	raw := sidecarOf(&nomad.SidecarTask{Driver: "raw_exec", Config: map[string]any{"command": "/bin/true"}})
	open := sidecarOf(&nomad.SidecarTask{Config: map[string]any{"privileged": true}})
	for name, c := range map[string]struct {
		mode    string
		connect *nomad.ConsulConnect
		needs   bool // privilege
	}{
		"sidecar": {"bridge", sidecarOf(nil), false}, "raw_exec": {"bridge", raw, true}, "privileged container": {"bridge", open, true},
		"gateway on the host": {"host", onHost, false},
	} {
		job := func() *nomad.Job {
			j := meshJob(c.mode, c.connect)
			if c.mode == "host" {
				j.TaskGroups[0].Networks[0].ReservedPorts = []nomad.Port{{Label: "wan", Value: 9001}}
				j.TaskGroups[0].Services[0].PortLabel = "wan"
			}
			return j
		}
		for method, req := range map[string]rpc.Request{"Job.Plan": &message.JobPlanRequest{Job: job()},
			"Job.Register": &message.JobRegisterRequest{Job: job()}} {
			err := g.Call(writer, method, req, nil)
			if c.needs && (!errors.Is(err, apierror.ErrPermissionDenied) || !strings.Contains(err.Error(), `task "connect-`)) || !c.needs && err != nil {
				t.Errorf("%s: %s without the right = %v", name, method, err)
			}
		}
		if err := g.Call(privileged, "Job.Register", &message.JobRegisterRequest{Job: job()}, nil); err != nil {
			t.Errorf("%s: Register() with the right = %v", name, err)
		}
	}
}

// TestMesh_Namespace checks that the rules of a namespace hold for the tasks that the servers add.
func TestMesh_Namespace(t *testing.T) {
	s, _ := servertest.Start(t, withConsul)
	write := message.WriteRequest{Region: "global", Namespace: "team"}
	ns := &nomad.Namespace{Name: "team", Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"docker"}}}
	if err := s.Call(servertest.Context(t), "Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{ns},
		WriteRequest: write}, nil); err != nil {
		t.Fatal(err)
	}
	job := meshJob("bridge", sidecarOf(nil))
	job.Namespace = "team"
	err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: job, WriteRequest: write}, nil)
	if err == nil || !strings.Contains(err.Error(), `"docker"`) {
		t.Errorf("Register() = %v, want a refusal of the driver of the sidecar", err)
	}
}

// TestMesh_Modes checks that connect blocks are refused by name without Consul, with the remedy.
func TestMesh_Modes(t *testing.T) {
	for mode, want := range map[consul.Mode]string{
		consul.Native: "connect is a feature of Consul, in which this service is not registered: remove the block",
		consul.Refuse: `service "api": provider is "consul", which is the default, but the servers refuse what needs Consul`,
		consul.Consul: "",
	} {
		s, _ := servertest.Start(t, func(cfg *server.Config) { cfg.Kinds, cfg.Consul.Setting = drivers.Table(), mode })
		err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: meshJob("bridge", sidecarOf(nil)),
			WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}}, nil)
		if want != "" {
			servertest.WantError(t, err, 400, want)
		} else if err != nil {
			t.Errorf("%s: Register() = %v", mode, err)
		}
	}
}

// TestMesh_Again checks that the constraints of an added task are those of every task: registering the stored job, or its file,
// makes no new version. PreserveResources keeps the resources of an added task.
func TestMesh_Again(t *testing.T) {
	s, _ := servertest.Start(t, withConsul)
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	register := func(req *message.JobRegisterRequest) uint64 {
		t.Helper()
		var out message.JobRegisterResponse
		req.WriteRequest = write
		if err := s.Call(servertest.Context(t), "Job.Register", req, &out); err != nil {
			t.Fatal(err)
		}
		return out.JobModifyIndex
	}
	stored := func() *nomad.Job {
		t.Helper()
		return servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("mesh")).Job
	}
	file := func() *nomad.Job {
		return meshJob("bridge", sidecarOf(&nomad.SidecarTask{Driver: "exec2", KillSignal: "SIGUSR1", Config: map[string]any{"command": "/bin/true"}}))
	}
	index := register(&message.JobRegisterRequest{Job: file()})
	servertest.Eventually(t, func() bool { return stored().Status == nomad.JobStatusDead }) // its status is not written any more
	has := false
	for _, c := range stored().TaskGroups[0].Constraints {
		has = has || c.LTarget == "${attr.os.signals}" && c.RTarget == "SIGUSR1"
	}
	if !has {
		t.Error("the group has no constraint for the signal of the proxy")
	}
	for what, job := range map[string]*nomad.Job{"the file": file(), "the stored job": stored()} {
		if got := register(&message.JobRegisterRequest{Job: job}); got != index {
			t.Errorf("%s made a new version: index %d, then %d", what, index, got)
		}
	}
	tuned := stored()
	tuned.TaskGroups[0].Task("connect-proxy-api").Resources.CPU = 777
	register(&message.JobRegisterRequest{Job: tuned})
	register(&message.JobRegisterRequest{Job: file(), PreserveResources: true})
	if got := stored().TaskGroups[0].Task("connect-proxy-api").Resources.CPU; got != 777 {
		t.Errorf("cpu of the proxy = %d, want the preserved 777", got)
	}
}
