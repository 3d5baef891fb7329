package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// consulJob returns a job with a service of Consul and a consul block, as a job file declares them.
func consulJob(id string) *nomad.Job {
	j := servertest.BatchJob(id, 0)
	j.TaskGroups[0].Consul = &nomad.Consul{}
	j.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: "consul", Cluster: "default"}}
	return j
}

// providersOf returns the stored and the declared provider of a job.
func providersOf(t *testing.T, s *server.Server, id string) string {
	t.Helper()
	job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest(id)).Job
	if job == nil {
		t.Fatalf("no job %s", id)
	}
	svc := job.TaskGroups[0].Services[0]
	return svc.Provider + " " + svc.DeclaredProvider
}

const mapped = "nomad consul"

// TestConsulServices_TwoDuties checks that jobs with services of Consul stay mapped when the leader changes between plan
// and register, by a revert to a version of another build, by periodic launches, and after a restore.
func TestConsulServices_TwoDuties(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.Kinds = drivers.Table() })
	_, followers := servertest.Split(t, all)
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	call := func(method string, req rpc.Request, out any) {
		t.Helper()
		if err := servertest.Retry(t, func(ctx context.Context) error { return all[0].Call(ctx, method, req, out) }); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(j *nomad.Job) (out message.JobPlanResponse) {
		t.Helper()
		call("Job.Plan", &message.JobPlanRequest{Job: j, Diff: true, WriteRequest: write}, &out)
		return out
	}
	register := func(j *nomad.Job) (out message.JobRegisterResponse) {
		t.Helper()
		call("Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: write}, &out)
		return out
	}
	want := func(when, id string) {
		t.Helper()
		if got := providersOf(t, all[0].Server, id); got != mapped {
			t.Errorf("%s: providers = %q, want %q", when, got, mapped)
		}
	}
	const warning = `services with provider "consul" are registered natively`

	if got := plan(consulJob("web")); !strings.Contains(got.Warnings, warning) {
		t.Errorf("warnings of the plan = %q", got.Warnings)
	}
	servertest.TransferLeadership(t, all, followers[0])
	first := register(consulJob("web"))
	if strings.Count(first.Warnings, warning) != 1 {
		t.Errorf("warnings of the registration = %q", first.Warnings)
	}
	want("registered", "web")
	servertest.Eventually(t, func() bool { // its status is not written any more
		return servertest.Read[message.SingleJobResponse](t, all[0].Server, "Job.GetJob", servertest.JobRequest("web")).Job.Status ==
			nomad.JobStatusDead
	})
	if again := register(consulJob("web")); again.JobModifyIndex != first.JobModifyIndex {
		t.Errorf("the same file made a new version: index %d, then %d", first.JobModifyIndex, again.JobModifyIndex)
	}
	if d := plan(consulJob("web")).Diff; d.Type != "None" {
		t.Errorf("diff of the same file = %+v", d)
	}

	// A server of another build stored version 0 of this job with provider "consul" and the constraint of Nomad.
	old := consulJob("old")
	jobrules.Canonicalize(old)
	old.TaskGroups[0].Constraints = []*nomad.Constraint{{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0", Operand: "semver"},
		{LTarget: "${attr.nomad.version}", RTarget: ">= 1.7.0-a", Operand: "semver"}}
	servertest.ApplyJob(t, followers[0].Server, old)
	if d := plan(consulJob("old")).Diff; d.Type != "None" {
		t.Errorf("diff against the version of another build = %+v", d)
	}
	changed := consulJob("old")
	changed.Meta = map[string]string{"a": "b"}
	register(changed)
	want("registered after another build", "old")
	call("Job.Revert", &message.JobRevertRequest{JobID: "old", JobVersion: 0, WriteRequest: write}, nil)
	want("reverted", "old")
	job := servertest.Read[message.SingleJobResponse](t, all[0].Server, "Job.GetJob", servertest.JobRequest("old")).Job
	for _, c := range job.TaskGroups[0].Constraints {
		if strings.Contains(c.LTarget, "consul") {
			t.Errorf("the reverted job has the constraint %v", c)
		}
	}

	cron := consulJob("cron")
	cron.Periodic = &nomad.PeriodicConfig{Enabled: true, Spec: "0 0 1 1 *"}
	register(cron)
	call("Periodic.Force", &message.PeriodicForceRequest{JobID: "cron", WriteRequest: write}, nil)
	children := servertest.Read[message.JobListResponse](t, all[0].Server, "Job.List", &message.JobListRequest{
		QueryOptions: message.QueryOptions{Namespace: "default", Prefix: "cron/"}}).Jobs
	if len(children) != 1 {
		t.Fatalf("%d launches, want 1", len(children))
	}
	want("periodic child", children[0].ID)

	archive := servertest.Save(t, followers[0].Server)
	register(func() *nomad.Job { j := consulJob("web"); j.TaskGroups[0].Services[0].Provider = "nomad"; return j }())
	if got := providersOf(t, all[0].Server, "web"); got != "nomad " {
		t.Errorf("with provider nomad in the file: providers = %q", got)
	}
	if err := servertest.Restore(t, servertest.RestoreStream(t, followers[1].Server), archive, "EOF"); err != nil {
		t.Fatal(err)
	}
	want("restored", "web")
}

// TestConsulServices_Modes checks the answers of the settings, and that the default follows the nodes.
func TestConsulServices_Modes(t *testing.T) {
	const refused = `service "web": provider is "consul", which is the default, but the servers refuse what needs Consul`
	for name, c := range map[string]struct {
		setting consul.Mode
		consul  bool   // a node has Consul
		want    string // the stored provider, or the error
	}{
		"default": {"", false, mapped}, "default with Consul": {"", true, "consul "}, "nomad": {consul.Native, true, mapped},
		"refuse": {consul.Refuse, false, refused}, "consul": {consul.Consul, false, "consul "},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := servertest.Start(t, func(cfg *server.Config) { cfg.Kinds, cfg.Consul.Setting = drivers.Table(), c.setting })
			if c.consul {
				n := servertest.NewFakeNode(t, s)
				n.Node.Attributes["consul.version"] = "1.20.0"
				if err := n.Register(""); err != nil {
					t.Fatal(err)
				}
			}
			write := message.WriteRequest{Region: "global", Namespace: "default"}
			var v message.JobValidateResponse
			if err := s.Call(servertest.Context(t), "Job.Validate", &message.JobValidateRequest{Job: codec.Copy(consulJob("j")), WriteRequest: write},
				&v); err != nil {
				t.Fatal(err)
			}
			err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: consulJob("j"), WriteRequest: write}, nil)
			if c.want == refused {
				servertest.WantError(t, err, 400, refused)
				if !strings.Contains(v.Error, refused) {
					t.Errorf("Validate() = %+v, want %q", v, refused)
				}
				return
			}
			if err != nil || v.Error != "" || strings.Contains(v.Warnings, "registered natively") != (c.want == mapped) {
				t.Fatalf("Register() = %v, Validate() = %+v", err, v)
			}
			if got := providersOf(t, s, "j"); got != c.want {
				t.Errorf("providers = %q, want %q", got, c.want)
			}
		})
	}
}

// TestConsulServices_Identities checks that the servers add identities to a job, that a plan agrees, and that the same file
// makes no new version.
func TestConsulServices_Identities(t *testing.T) {
	s, _ := servertest.Start(t, func(cfg *server.Config) {
		cfg.Kinds, cfg.Consul = drivers.Table(), consul.Config{Setting: consul.Consul,
			ServiceIdentity: &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour},
			TaskIdentity:    &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}}
	})
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	register := func() (out message.JobRegisterResponse) {
		t.Helper()
		if err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: consulJob("j"), WriteRequest: write}, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := register()
	tg := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("j")).Job.TaskGroups[0]
	if id := tg.Services[0].Identity; id == nil || id.Name != "consul-service_web-" || id.Alg != "RS256" {
		t.Errorf("identity of the service = %+v", id)
	}
	if ids := tg.Tasks[0].Identities; len(ids) != 2 || ids[1].Name != "consul_default" {
		t.Errorf("identities of the task = %+v", ids)
	}
	servertest.Eventually(t, func() bool { // its status is not written any more
		return servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("j")).Job.Status == nomad.JobStatusDead
	})
	if again := register(); again.JobModifyIndex != first.JobModifyIndex {
		t.Errorf("the same file made a new version: index %d, then %d", first.JobModifyIndex, again.JobModifyIndex)
	}
	var plan message.JobPlanResponse
	if err := s.Call(servertest.Context(t), "Job.Plan", &message.JobPlanRequest{Job: consulJob("j"), Diff: true, WriteRequest: write},
		&plan); err != nil || plan.Diff.Type != "None" {
		t.Errorf("Plan() = %v, diff %+v", err, plan.Diff)
	}
}

// TestConsulServices_Outage checks that jobs are for Consul while the Consul of a node is down when its client restarts, and
// while the node is down. They are mapped after the node is purged. A job that is mapped stays so when it is scaled.
func TestConsulServices_Outage(t *testing.T) {
	s, _ := servertest.Start(t, func(cfg *server.Config) { cfg.Kinds = drivers.Table() })
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	count := int64(0)
	stored := func(when string, want string) {
		t.Helper()
		count++
		scale := &message.JobScaleRequest{JobID: "mapped", Target: map[string]string{"Group": "g"}, Count: &count, WriteRequest: write}
		if err := s.Call(servertest.Context(t), "Job.Scale", scale, nil); err != nil {
			t.Errorf("%s: Scale() = %v", when, err)
		}
		if got := providersOf(t, s, "mapped"); got != mapped {
			t.Errorf("%s: providers of the scaled job = %q, want %q", when, got, mapped)
		}
		if err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: consulJob("j"), WriteRequest: write},
			nil); err != nil {
			t.Fatal(err)
		}
		if got := providersOf(t, s, "j"); got != want {
			t.Errorf("%s: providers = %q, want %q", when, got, want)
		}
	}
	n := servertest.NewFakeNode(t, s)
	n.Node.HadConsul = true // not for the client to decide
	register := func() {
		t.Helper()
		if err := n.Register(n.JWT); err != nil {
			t.Fatal(err)
		}
	}
	register()
	if err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: consulJob("mapped"), WriteRequest: write},
		nil); err != nil {
		t.Fatal(err)
	}
	const inConsul = "consul "
	stored("no Consul yet", mapped)
	n.Node.HadConsul, n.Node.Attributes["consul.version"] = false, "1.20.0"
	register()
	stored("found", inConsul)
	delete(n.Node.Attributes, "consul.version")
	register()
	stored("restarted without its Consul", inConsul)
	register()
	stored("restarted again", inConsul)
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusDown,
		WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
	stored("down", inConsul)
	if err := s.Call(servertest.Context(t), "Node.Deregister", &message.NodeDeregisterRequest{NodeID: n.Node.ID,
		WriteRequest: write}, nil); err != nil {
		t.Fatal(err)
	}
	stored("purged", mapped)
}
