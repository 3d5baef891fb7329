package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	internal "github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestGateways checks that the configuration of a gateway is in Consul before its job is stored, that plan and validate write
// nothing, and that a job is refused while Consul fails.
func TestGateways(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{})
	agent, err := internal.New(internal.Settings{Name: "default", HTTP: api.Config{Address: c.Addr()}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := servertest.Start(t, func(cfg *server.Config) {
		withConsul(cfg)
		cfg.Consul.Agent = agent
	})
	job := func(port int) *nomad.Job {
		return meshJob("bridge", &nomad.ConsulConnect{Gateway: &connect.Gateway{Ingress: &connect.IngressConfigEntry{
			Listeners: []*connect.IngressListener{{Port: port, Protocol: "tcp", Services: []*connect.IngressService{{Name: "db"}}}}}}})
	}
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	writes := func(when string, want int) {
		t.Helper()
		if got := c.Calls("PUT /v1/config"); got != want {
			t.Errorf("%s: %d writes, want %d", when, got, want)
		}
	}
	register := func(req *message.JobRegisterRequest) error {
		req.WriteRequest = write
		return s.Call(servertest.Context(t), "Job.Register", req, nil)
	}
	if err := s.Call(servertest.Context(t), "Job.Plan", &message.JobPlanRequest{Job: job(1), WriteRequest: write}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(servertest.Context(t), "Job.Validate", &message.JobValidateRequest{Job: job(1), WriteRequest: write}, nil); err != nil {
		t.Fatal(err)
	}
	writes("planned", 0)
	if err := register(&message.JobRegisterRequest{Job: job(1), EnforceIndex: true, JobModifyIndex: 9}); err == nil {
		t.Error("a wrong index was accepted")
	}
	writes("compare-and-set failed", 0)
	if err := c.Set(testconsul.Mode{Fail: true}); err != nil {
		t.Fatal(err)
	}
	servertest.WantError(t, register(&message.JobRegisterRequest{Job: job(1)}), 500, `write the configuration of the ingress-gateway "api" to Consul`)
	if j := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("mesh")).Job; j != nil {
		t.Error("the job was stored without its configuration")
	}
	if err := c.Set(testconsul.Mode{}); err != nil {
		t.Fatal(err)
	}
	failed := c.Calls("PUT /v1/config")
	for _, port := range []int{1, 2} {
		if err := register(&message.JobRegisterRequest{Job: job(port)}); err != nil {
			t.Fatal(err)
		}
	}
	writes("registered", failed+2)
	if err := s.Call(servertest.Context(t), "Job.Revert", &message.JobRevertRequest{JobID: "mesh", JobVersion: 0, WriteRequest: write}, nil); err != nil {
		t.Fatal(err)
	}
	writes("reverted", failed+3)
	listener := c.ConfigEntry("ingress-gateway", "api")["Listeners"].([]any)[0].(map[string]any)
	if err := s.Call(servertest.Context(t), "Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{WriteRequest: write,
		Namespaces: []*nomad.Namespace{{Name: "other"}}}, nil); err != nil {
		t.Fatal(err)
	}
	write.Namespace = "other"
	there := job(3)
	there.Namespace = "other"
	servertest.WantError(t, register(&message.JobRegisterRequest{Job: there}), 400, `a job in another namespace has the ingress-gateway "api"`)
	writes("refused in another namespace", failed+3)
	there.TaskGroups[0].Services[0].Name = "api2"
	if err := register(&message.JobRegisterRequest{Job: there}); err != nil {
		t.Error(err)
	}
	if listener["Port"] != 1.0 || !strings.EqualFold(listener["Protocol"].(string), "tcp") {
		t.Errorf("listener = %v, want that of version 0", listener)
	}
}
