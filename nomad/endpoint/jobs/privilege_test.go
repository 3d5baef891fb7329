package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// privilegedJob returns a job without allocations, whose task is privileged.
func privilegedJob(id string) *nomad.Job {
	j := servertest.BatchJob(id, 0)
	j.TaskGroups[0].Tasks[0].Driver, j.TaskGroups[0].Tasks[0].Privileged = "raw_exec", true
	j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/true"}
	return j
}

// TestPrivileged_Right checks who may register, plan, validate and dispatch a job with a
// privileged task, and that the error names the task and the capability.
func TestPrivileged_Right(t *testing.T) {
	g := servertest.StartACL(t, func(c *server.Config) { c.Kinds = drivers.Table() })
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}}}, nil)
	parent := privilegedJob("parent")
	parent.ParameterizedJob = &nomad.ParameterizedJobConfig{}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: parent}, nil)
	calls := map[string]func() rpc.Request{
		"Job.Register": func() rpc.Request { return &message.JobRegisterRequest{Job: privilegedJob("j")} },
		"Job.Plan":     func() rpc.Request { return &message.JobPlanRequest{Job: privilegedJob("j")} },
		"Job.Validate": func() rpc.Request { return &message.JobValidateRequest{Job: privilegedJob("j")} },
		"Job.Dispatch": func() rpc.Request { return &message.JobDispatchRequest{JobID: "parent"} },
	}
	const write = `namespace "default" { policy = "write" }`
	for name, c := range map[string]struct {
		secret string
		may    bool
	}{
		"management":         {g.Root, true},
		"write":              {g.TokenWith(write), false},
		"with the right":     {g.TokenWith(`namespace "default" {` + "\npolicy = \"write\"\ncapabilities = [\"privileged-execution\"]\n}"), true},
		"only the rights":    {g.TokenWith(`namespace "default" { capabilities = ["register-job", "plan-job", "read-job", "dispatch-job", "privileged-execution"] }`), true},
		"in another":         {g.TokenWith(write + "\n" + `namespace "a" { capabilities = ["privileged-execution"] }`), false},
		"by a wider pattern": {g.TokenWith(write + "\n" + `namespace "*" { capabilities = ["privileged-execution"] }`), false},
	} {
		for method, req := range calls {
			err := g.Call(c.secret, method, req(), nil)
			if c.may && err != nil {
				t.Errorf("%s: %s: %v", name, method, err)
			}
			if !c.may && (!errors.Is(err, apierror.ErrPermissionDenied) || !strings.Contains(err.Error(), `task "t" of group "g"`) ||
				!strings.Contains(err.Error(), `privileged-execution in namespace "default"`)) {
				t.Errorf("%s: %s: %v, want a refusal that names the task and the capability", name, method, err)
			}
		}
	}
	// The right alone runs nothing.
	for method, req := range calls {
		if err := g.Call(g.TokenWith(`namespace "default" { capabilities = ["privileged-execution"] }`), method, req(), nil); !errors.Is(err,
			apierror.ErrPermissionDenied) {
			t.Errorf("%s with privileged-execution only: %v", method, err)
		}
	}
}

// TestPrivileged_OnlyOnce checks that calls which repeat what the servers were told need no right
// on privileged tasks, and neither does a change that removes the privilege.
func TestPrivileged_OnlyOnce(t *testing.T) {
	g := servertest.StartACL(t, func(c *server.Config) { c.Kinds = drivers.Table() })
	g.Must("Job.Register", &message.JobRegisterRequest{Job: privilegedJob("j")}, nil)
	writer := g.TokenWith(`namespace "default" { policy = "write" }`)
	plain := servertest.BatchJob("j", 0)
	for _, c := range []struct {
		method string
		req    rpc.Request
	}{
		{"Job.Evaluate", &message.JobEvaluateRequest{JobID: "j"}},
		{"Job.Register", &message.JobRegisterRequest{Job: plain}},
		{"Job.Deregister", &message.JobDeregisterRequest{JobID: "j"}},
	} {
		if err := g.Call(writer, c.method, c.req, nil); err != nil {
			t.Errorf("%s: %v", c.method, err)
		}
	}
	// The job is stopped: running it again is a registration.
	if err := g.Call(writer, "Job.Register", &message.JobRegisterRequest{Job: privilegedJob("j")}, nil); !errors.Is(err,
		apierror.ErrPermissionDenied) {
		t.Errorf("registering the stopped job: %v", err)
	}
}

// TestUnprivileged_Refused checks that a server that demands the line refuses a task that needs privilege until a node
// has the legacy behaviour.
func TestUnprivileged_Refused(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Kinds, c.ExplicitPrivilege = drivers.Table(), true })
	job := privilegedJob("j")
	job.TaskGroups[0].Tasks[0].Privileged = false
	call := func() error {
		req := &message.JobRegisterRequest{Job: codec.Copy(job), WriteRequest: message.WriteRequest{Region: "global"}}
		return s.Call(t.Context(), "Job.Register", req, &message.JobRegisterResponse{})
	}
	servertest.Register(t, s, servertest.BatchJob("first", 0)) // waits for the leader
	if err := call(); !servertest.IsCoded(err, 400, "add privileged = true to the task") {
		t.Errorf("without a node: %v", err)
	}
	var out message.JobValidateResponse
	req := &message.JobValidateRequest{Job: codec.Copy(job), WriteRequest: message.WriteRequest{Region: "global"}}
	if err := s.Call(t.Context(), "Job.Validate", req, &out); err != nil || len(out.ValidationErrors) != 1 ||
		!strings.Contains(out.Error, "legacy_privileged_behavior = true") {
		t.Errorf("validation: %+v, %v", out, err)
	}
	n := &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Name: "n", Datacenter: "dc1", Status: nomad.NodeStatusInit,
		Drivers:    map[string]*nomad.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		Attributes: map[string]string{"nomad.version": "2.0.6", "driver.raw_exec": "1", "driver.raw_exec.backend": "raw_exec"}}
	for legacy, want := range map[string]bool{"": false, "true": true} {
		n.Attributes["driver.raw_exec.privileged.legacy"] = legacy
		if err := s.Call(t.Context(), "Node.Register",
			&message.NodeRegisterRequest{Node: codec.Copy(n), WriteRequest: message.WriteRequest{Region: "global"}},
			&message.NodeUpdateResponse{}); err != nil {
			t.Fatal(err)
		}
		if err := call(); (err == nil) != want {
			t.Errorf("with a node of legacy %q: %v", legacy, err)
		}
	}
}

// TestUnprivileged_LegacyNodes checks that the workers, and plans, place a task that needs
// privilege and does not have it on nodes with the legacy behaviour only, and a privileged task where
// it is offered.
func TestUnprivileged_LegacyNodes(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Kinds, c.ExplicitPrivilege = drivers.Table(), true })
	nodes := map[string]*servertest.FakeNode{}
	for _, key := range []string{"legacy", "enabled", ""} {
		n := servertest.Join(t, s.RPCAddr())
		n.Node.Status = nomad.NodeStatusReady
		n.Node.Attributes["driver.mock_driver.backend"] = "mock_driver"
		if key != "" {
			n.Node.Attributes["driver.mock_driver.privileged."+key] = "true"
		}
		n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
		nodes[key] = n
	}
	planned := func(job *nomad.Job) *nomad.AllocMetric {
		t.Helper()
		var plan message.JobPlanResponse
		req := &message.JobPlanRequest{Job: codec.Copy(job), WriteRequest: message.WriteRequest{Region: "global"}}
		if err := s.Call(t.Context(), "Job.Plan", req, &plan); err != nil {
			t.Fatal(err)
		}
		return plan.FailedTGAllocs["g"]
	}
	for key, privileged := range map[string]bool{"legacy": false, "enabled": true} {
		job := servertest.BatchJob("on-"+key, 3)
		job.TaskGroups[0].Tasks[0].Config["needs_privilege"], job.TaskGroups[0].Tasks[0].Privileged = "a reason", privileged
		if key == "enabled" { // the legacy node runs such a task too
			job.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.id}", RTarget: nodes[key].Node.ID, Operand: "="}}
		}
		if m := planned(job); m != nil {
			t.Errorf("%s: the plan fails: %+v", job.ID, m)
		}
		elsewhere := codec.Copy(job)
		elsewhere.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.id}", RTarget: nodes[""].Node.ID, Operand: "="}}
		if m := planned(elsewhere); m == nil || len(m.ConstraintFiltered) == 0 {
			t.Errorf("%s: the plan places it on another node", job.ID)
		}
		servertest.Register(t, s, job)
		for _, a := range nodes[key].Allocs(3) {
			if a.JobID != job.ID {
				t.Errorf("node %q got an allocation of %s", key, a.JobID)
			}
		}
	}
	// Without the legacy node, a registered job cannot be placed again, and a plan names the reason.
	n := nodes["legacy"]
	delete(n.Node.Attributes, "driver.mock_driver.privileged.legacy")
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
	n.Report(nomad.AllocClientStatusFailed, n.Allocs(3)...)
	servertest.Eventually(t, func() bool {
		evals := servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations",
			&message.JobSpecificRequest{JobID: "on-legacy", QueryOptions: message.QueryOptions{Region: "global"}})
		for _, e := range evals.Evaluations {
			for _, m := range e.FailedTGAllocs {
				if m.ConstraintFiltered[`task "t" needs privileged = true for driver "mock_driver"`] > 0 {
					return true
				}
			}
		}
		return false
	})
}
