package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestVault_Updates plans changes of a job with vault and secret blocks, as users send it: without the defaults and the identity that
// the servers add. A change of a block replaces the allocation. Another change does not.
func TestVault_Updates(t *testing.T) {
	s, _ := servertest.Start(t, vaultServers(t.TempDir()))
	n := servertest.Join(t, s.RPCAddr())
	for name, value := range map[string]string{"vault.version": "1.20.0", "os.signals": "SIGHUP,SIGUSR1",
		nomad.SecretsAttribute("nomad"): "1.0.0", nomad.SecretsAttribute("vault"): "1.0.0"} {
		n.Node.Attributes[name] = value
	}
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, new(message.NodeUpdateResponse))
	job := func() *nomad.Job {
		j := vaultJob("web", 1)
		j.Type = nomad.JobTypeService
		j.TaskGroups[0].Tasks[0].Secrets = []*nomad.Secret{{Name: "db", Provider: "nomad", Path: "nomad/jobs/web"}}
		return j
	}
	servertest.Register(t, s, job())
	n.Allocs(1)
	inPlace, replaced := nomad.DesiredUpdates{InPlaceUpdate: 1}, nomad.DesiredUpdates{DestructiveUpdate: 1}
	for _, tc := range []struct {
		name   string
		change func(*nomad.Job, *nomad.Task)
		want   nomad.DesiredUpdates
	}{
		{"nothing", func(*nomad.Job, *nomad.Task) {}, nomad.DesiredUpdates{Ignore: 1}},
		{"count", func(j *nomad.Job, _ *nomad.Task) { j.TaskGroups[0].Count = 2 }, nomad.DesiredUpdates{InPlaceUpdate: 1, Place: 1}},
		{"priority", func(j *nomad.Job, _ *nomad.Task) { j.Priority = 60 }, inPlace},
		{"service", func(_ *nomad.Job, t *nomad.Task) { t.Services = []*nomad.Service{{Name: "a", Provider: "nomad"}} }, inPlace},
		{"kill timeout", func(_ *nomad.Job, t *nomad.Task) { t.KillTimeout = 9e9 }, inPlace},
		{"defaults", func(_ *nomad.Job, t *nomad.Task) { t.Vault.Cluster, t.Vault.ChangeSignal = "default", "SIGUSR1" }, nomad.DesiredUpdates{Ignore: 1}},
		{"role", func(_ *nomad.Job, t *nomad.Task) { t.Vault.Role = "db" }, replaced},
		{"env", func(_ *nomad.Job, t *nomad.Task) { t.Vault.Env = true }, replaced},
		{"file", func(_ *nomad.Job, t *nomad.Task) { t.Vault.DisableFile = true }, replaced},
		{"change mode", func(_ *nomad.Job, t *nomad.Task) { t.Vault.ChangeMode = "noop" }, replaced},
		{"change signal", func(_ *nomad.Job, t *nomad.Task) { t.Vault.ChangeSignal = "SIGHUP" }, replaced},
		{"expiration", func(_ *nomad.Job, t *nomad.Task) { t.Vault.AllowTokenExpiration = true }, replaced},
		{"no vault block", func(_ *nomad.Job, t *nomad.Task) { t.Vault = nil }, replaced},
		{"name of the secret", func(_ *nomad.Job, t *nomad.Task) { t.Secrets[0].Name = "other" }, replaced},
		{"path", func(_ *nomad.Job, t *nomad.Task) { t.Secrets[0].Path = "nomad/jobs/web/g" }, replaced},
		{"provider", func(_ *nomad.Job, t *nomad.Task) { t.Secrets[0].Provider = "vault" }, replaced},
		{"config", func(_ *nomad.Job, t *nomad.Task) { t.Secrets[0].Config = map[string]any{"namespace": "default"} }, replaced},
		{"no secret", func(_ *nomad.Job, t *nomad.Task) { t.Secrets = nil }, replaced},
		{"another secret", func(_ *nomad.Job, t *nomad.Task) {
			t.Secrets = append(t.Secrets, &nomad.Secret{Name: "more", Provider: "nomad", Path: "a"})
		}, replaced},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := job()
			tc.change(j, j.TaskGroups[0].Tasks[0])
			var plan message.JobPlanResponse
			req := &message.JobPlanRequest{Job: j, WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}}
			if err := s.Call(servertest.Context(t), "Job.Plan", req, &plan); err != nil {
				t.Fatal(err)
			}
			if got := *plan.Annotations.DesiredTGUpdates["g"]; got != tc.want {
				t.Errorf("updates %+v, want %+v; failed placements %v", got, tc.want, plan.FailedTGAllocs)
			}
		})
	}
}
