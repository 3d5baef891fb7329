package jobs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// privilegeMode is the configuration that decides what becomes of tasks that need privilege.
type privilegeMode string

const (
	modeDefault   privilegeMode = "default"
	modeNamespace privilegeMode = "namespace explicit"
	modeServer    privilegeMode = "server explicit"
	modeLegacy    privilegeMode = "legacy node"
)

// The outcomes of writing a job whose task needs privilege and does not have it.
const (
	added    = "privileged = true was added"
	asBefore = "written without privilege"
	denied   = "403"
	demanded = "400: the line is demanded"
)

// startMode returns a server in a mode, with or without access control.
func startMode(t *testing.T, mode privilegeMode, acl bool) *jobWorld {
	log := &servertest.Log{}
	s, _ := servertest.StartLogging(t, func(c *server.Config) {
		c.Access.Enabled, c.Kinds, c.ExplicitPrivilege = acl, drivers.Table(), mode == modeServer
	}, slog.New(slog.NewTextHandler(log, nil)))
	a := &jobWorld{ACLServer: servertest.NewACLServer(t, s), log: log}
	if acl {
		root, err := a.Bootstrap("")
		if err != nil {
			t.Fatal(err)
		}
		a.Root = root.SecretID
		a.writer = a.TokenWith(`namespace "team" { policy = "write" }`)
	}
	a.Must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}, nil)
	rules := &nomad.Namespace{}
	if mode == modeNamespace {
		rules.Privileged = nomad.PrivilegedExplicit
	}
	a.namespace(rules)
	if mode == modeLegacy {
		a.legacyNode()
	}
	return a
}

// legacyNode adds a node whose raw_exec has the legacy behaviour.
func (a *jobWorld) legacyNode() {
	a.Helper()
	n := &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Name: "n", Datacenter: "dc1", NodePool: "gpu", Status: nomad.NodeStatusReady,
		Drivers: map[string]*nomad.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		Attributes: map[string]string{"nomad.version": "2.0.6", "driver.raw_exec": "1", "driver.raw_exec.backend": "raw_exec",
			"driver.raw_exec.privileged.legacy": "true"}}
	if err := a.Server.Apply(a.Context(), message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: n}); err != nil {
		a.Fatal(err)
	}
}

// needy makes the task of a job one that needs privilege and does not have it.
func needy(j *nomad.Job) *nomad.Job {
	raw(j).TaskGroups[0].Tasks[0].Privileged = false
	return j
}

// privilegeCase is a caller in a world, and the ID of the job of its next write.
type privilegeCase struct {
	*jobWorld
	secret string
	author *nomad.Registrant // the rights of the author of registered versions
	id     string
}

// registered stores a version of the job without admission, like a server that did not add privilege.
func (c *privilegeCase) registered(j *nomad.Job) *nomad.Job {
	c.Helper()
	j.Registrant = c.author
	return c.store(j)
}

// result is the outcome of a write: of its error, or of the job as it is stored.
func (c *privilegeCase) result(err error, job *nomad.Job) string {
	c.Helper()
	return c.outcome(err, job != nil && job.TaskGroups[0].Tasks[0].Privileged)
}

func (c *privilegeCase) outcome(err error, privileged bool) string {
	c.Helper()
	const place = `task "t" of group "g" needs privilege: raw_exec runs programs with the rights of the agent and without a sandbox (no right is needed with legacy_privileged_behavior = true`
	text := strings.ReplaceAll(fmt.Sprint(err), `\"`, `"`) // a launch is refused in the log
	switch {
	case err == nil && privileged:
		return added
	case err == nil:
		return asBefore
	case strings.Contains(text, place) && strings.Contains(text, `needs privileged-execution in namespace "team"`):
		return denied
	case strings.Contains(text, "add privileged = true to the task") && strings.Contains(text, `or remove privileged = "explicit" from `):
		return demanded
	}
	return text
}

// child returns the child of the job, nil if it has none.
func (c *privilegeCase) child() *nomad.Job {
	for j := range c.Server.State().Snapshot().JobChildren(nil, "team", c.id) {
		return j
	}
	return nil
}

// warned checks that the warnings name the task once, if privilege was added.
func (c *privilegeCase) warned(out, warnings string) string {
	c.Helper()
	want := 0
	if out == added {
		want = 1
	}
	const text = `the servers added privileged = true to tasks that need it: "t" of group "g"`
	if got := strings.Count(warnings, text); got != want {
		c.Errorf("%s: %d warnings about added privilege, want %d: %q", out, got, want, warnings)
	}
	return out
}

// privilegeWays are all ways to write a job whose task needs privilege. Each returns the outcome.
func privilegeWays() map[string]func(c *privilegeCase) string {
	in := message.WriteRequest{Namespace: "team"}
	parent := func(c *privilegeCase) *nomad.Job {
		j := needy(teamJob(c.id))
		j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "optional"}
		return j
	}
	periodic := func(c *privilegeCase, spec string) *nomad.Job {
		j := needy(teamJob(c.id))
		j.Periodic = &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", Spec: spec, TimeZone: "UTC"}
		return j
	}
	return map[string]func(c *privilegeCase) string{
		"register": func(c *privilegeCase) string {
			var out message.JobRegisterResponse
			err := c.Call(c.secret, "Job.Register", &message.JobRegisterRequest{Job: needy(teamJob(c.id)), WriteRequest: in}, &out)
			return c.warned(c.result(err, c.job(c.id)), out.Warnings)
		},
		"plan": func(c *privilegeCase) string {
			var out message.JobPlanResponse
			err := c.Call(c.secret, "Job.Plan", &message.JobPlanRequest{Job: needy(teamJob(c.id)), Diff: true, WriteRequest: in}, &out)
			return c.warned(c.outcome(err, err == nil && strings.Contains(shown(out.Diff), "Privileged true")), out.Warnings)
		},
		"validate": func(c *privilegeCase) string {
			var out message.JobValidateResponse
			err := c.Call(c.secret, "Job.Validate", &message.JobValidateRequest{Job: needy(teamJob(c.id)), WriteRequest: in}, &out)
			if err == nil && out.Error != "" {
				err = errors.New(out.Error)
			}
			return c.warned(c.outcome(err, strings.Contains(out.Warnings, "added privileged = true")), out.Warnings)
		},
		"scale": func(c *privilegeCase) string {
			c.registered(needy(teamJob(c.id)))
			two := int64(2)
			err := c.Call(c.secret, "Job.Scale", &message.JobScaleRequest{JobID: c.id, Target: map[string]string{"Group": "g"}, Count: &two,
				WriteRequest: in}, nil)
			return c.result(err, c.job(c.id))
		},
		"revert": func(c *privilegeCase) string {
			c.registered(needy(teamJob(c.id)))
			c.registered(teamJob(c.id))
			err := c.Call(c.secret, "Job.Revert", &message.JobRevertRequest{JobID: c.id, WriteRequest: in}, nil)
			return c.result(err, c.job(c.id))
		},
		"dispatch": func(c *privilegeCase) string {
			c.registered(parent(c))
			return c.result(c.Call(c.secret, "Job.Dispatch", &message.JobDispatchRequest{JobID: c.id, WriteRequest: in}, nil), c.child())
		},
		"force": func(c *privilegeCase) string {
			c.registered(periodic(c, "0 0 1 1 *"))
			return c.result(c.Call(c.secret, "Periodic.Force", &message.PeriodicForceRequest{JobID: c.id, WriteRequest: in}, nil), c.child())
		},
		"launch": func(c *privilegeCase) string {
			c.registered(periodic(c, "* * * * * * *"))
			defer c.Must("Job.Deregister", &message.JobDeregisterRequest{JobID: c.id, WriteRequest: in}, nil)
			return c.result(c.launched(c.id), c.child())
		},
		"rollback": func(c *privilegeCase) string {
			c.registered(needy(service(teamJob(c.id))))
			if err := c.Server.Apply(c.Context(), message.JobStabilityRequestType,
				&message.JobStabilityRequest{JobID: c.id, Stable: true, WriteRequest: in}); err != nil {
				c.Fatal(err)
			}
			c.register(c.secret, service(teamJob(c.id)))
			return c.result(c.fails(c.deploys(c.id)), c.job(c.id))
		},
	}
}

// shown returns the fields of a difference, one per line: their names and new values.
func shown(d *message.JobDiff) string {
	var b strings.Builder
	for _, g := range d.TaskGroups {
		for _, t := range g.Tasks {
			for _, f := range t.Fields {
				fmt.Fprintln(&b, f.Name, f.New)
			}
		}
	}
	return b.String()
}

// TestPrivilege_EveryWay writes a job whose task needs privilege, without the line, as each caller, in each way and in
// each mode. Versions that the servers derive have an author with the rights of the caller.
func TestPrivilege_EveryWay(t *testing.T) {
	t.Parallel()
	submits := []string{"register", "plan", "validate", "revert"}
	for _, mode := range []privilegeMode{modeDefault, modeNamespace, modeServer, modeLegacy} {
		for caller, may := range map[string]bool{"no access control": true, "management": true, "capability": true, "without": false} {
			t.Run(string(mode)+", "+caller, func(t *testing.T) {
				t.Parallel()
				a := startMode(t, mode, caller != "no access control")
				c := &privilegeCase{jobWorld: a}
				switch caller {
				case "management":
					c.secret, c.author = a.Root, &nomad.Registrant{Management: true}
				case "capability":
					c.secret = a.TokenWith("namespace \"team\" {\n policy = \"write\"\n capabilities = [\"privileged-execution\"]\n}")
					c.author = &nomad.Registrant{Rights: []string{`privileged-execution in namespace "team"`}}
				case "without":
					c.secret = a.writer
				}
				for way, write := range privilegeWays() {
					want := denied
					switch {
					case mode == modeNamespace || mode == modeServer:
						want = demanded
					case mode == modeLegacy && (!may || !slices.Contains(submits, way)):
						want = asBefore
					case may:
						want = added
					}
					c.id = way
					if got := write(c); got != want {
						t.Errorf("%s: %s, want %s", way, got, want)
					}
				}
			})
		}
	}
}

// TestPrivilege_Unchanged checks that a job to which privilege was added is unchanged when it is submitted again, and that
// a plan shows no difference.
func TestPrivilege_Unchanged(t *testing.T) {
	a := startMode(t, modeDefault, true)
	in := message.WriteRequest{Namespace: "team"}
	a.register(a.Root, needy(teamJob("j")))
	var plan message.JobPlanResponse
	a.Must("Job.Plan", &message.JobPlanRequest{Job: needy(teamJob("j")), Diff: true, WriteRequest: in}, &plan)
	if plan.Diff.Type != message.DiffTypeNone {
		t.Errorf("the plan shows %s: %s", plan.Diff.Type, shown(plan.Diff))
	}
	a.register(a.Root, needy(teamJob("j")))
	if v := a.job("j").Version; v != 0 {
		t.Errorf("the job has version %d, want 0", v)
	}
}

// TestPrivilege_NotInherited checks that a caller without the right cannot use privilege that others have: of the stored
// version, of versions that it names, of the author of another version, or of those who start its job.
func TestPrivilege_NotInherited(t *testing.T) {
	in := message.WriteRequest{Namespace: "team"}
	one := int64(2)
	scale := func(id string) *message.JobScaleRequest {
		return &message.JobScaleRequest{JobID: id, Target: map[string]string{"Group": "g"}, Count: &one, WriteRequest: in}
	}
	for name, attack := range map[string]func(a *jobWorld) error{
		"registers the stored job again": func(a *jobWorld) error {
			a.register(a.Root, needy(teamJob("j")))
			return a.Call(a.writer, "Job.Register", &message.JobRegisterRequest{Job: needy(teamJob("j")), WriteRequest: in}, nil)
		},
		"registers the stored job as it was read": func(a *jobWorld) error {
			a.register(a.Root, needy(teamJob("j")))
			return a.Call(a.writer, "Job.Register", &message.JobRegisterRequest{Job: codec.Copy(a.job("j")), WriteRequest: in}, nil)
		},
		"registers with the index of another's plan": func(a *jobWorld) error {
			a.register(a.Root, needy(teamJob("j")))
			j := needy(teamJob("j"))
			j.TaskGroups[0].Tasks[0].Config["args"] = []any{"-x"}
			return a.Call(a.writer, "Job.Register", &message.JobRegisterRequest{Job: j, EnforceIndex: true,
				JobModifyIndex: a.job("j").JobModifyIndex, PreserveCounts: true, PreserveResources: true, WriteRequest: in}, nil)
		},
		"names the author's rights": func(a *jobWorld) error {
			j := needy(teamJob("j"))
			j.Registrant, j.ParentID = &nomad.Registrant{Management: true}, ""
			return a.Call(a.writer, "Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: in}, nil)
		},
		"reverts": func(a *jobWorld) error {
			a.register(a.Root, needy(teamJob("j")))
			a.register(a.writer, teamJob("j"))
			return a.Call(a.writer, "Job.Revert", &message.JobRevertRequest{JobID: "j", WriteRequest: in}, nil)
		},
		"scales": func(a *jobWorld) error {
			a.register(a.Root, needy(teamJob("j")))
			return a.Call(a.writer, "Job.Scale", scale("j"), nil)
		},
		"dispatches": func(a *jobWorld) error {
			j := needy(teamJob("j"))
			j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "optional"}
			a.register(a.Root, j)
			return a.Call(a.writer, "Job.Dispatch", &message.JobDispatchRequest{JobID: "j", WriteRequest: in}, nil)
		},
		"is reverted to by management": func(a *jobWorld) error {
			a.store(needy(teamJob("j")))
			a.register(a.Root, teamJob("j"))
			return a.Call(a.Root, "Job.Revert", &message.JobRevertRequest{JobID: "j", WriteRequest: in}, nil)
		},
		"is scaled by management": func(a *jobWorld) error {
			a.store(needy(teamJob("j")))
			return a.Call(a.Root, "Job.Scale", scale("j"), nil)
		},
		"is dispatched by management": func(a *jobWorld) error {
			j := needy(teamJob("j"))
			j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "optional"}
			a.store(j)
			return a.Call(a.Root, "Job.Dispatch", &message.JobDispatchRequest{JobID: "j", WriteRequest: in}, nil)
		},
		"is the version to which the job of management is rolled back": func(a *jobWorld) error {
			a.store(needy(service(teamJob("j"))))
			if err := a.stable(a.writer, 0, true); err != nil {
				return fmt.Errorf("not marked: %w", err)
			}
			a.register(a.Root, service(teamJob("j")))
			return a.fails(a.deploys("j"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startMode(t, modeDefault, true)
			err := attack(a)
			if err == nil || !strings.Contains(err.Error(), "privileged-execution") {
				t.Errorf("the error is %v, want one about the right", err)
			}
			for j := range a.Server.State().Snapshot().Jobs(nil) {
				if j.Version > 0 && j.TaskGroups[0].Tasks[0].Privileged || j.ParentID != "" {
					t.Errorf("job %q, version %d was written", j.ID, j.Version)
				}
			}
		})
	}
}

// TestPrivilege_RollbackEnds checks that a stable version that would equal the failed one, after adding privilege to it, is
// not registered: its deployment would fail too, and be rolled back again.
func TestPrivilege_RollbackEnds(t *testing.T) {
	a := startMode(t, modeDefault, true)
	a.register(a.Root, needy(service(teamJob("j"))))
	old := codec.Copy(a.job("j"))
	old.TaskGroups[0].Tasks[0].Privileged = false
	if v := a.store(old).Version; v != 1 {
		t.Fatalf("the version without privilege is %d, want 1", v)
	}
	if err := a.stable(a.Root, 1, true); err != nil {
		t.Fatal(err)
	}
	a.register(a.Root, needy(service(teamJob("j"))))
	if j := a.job("j"); j.Version != 2 || !j.TaskGroups[0].Tasks[0].Privileged {
		t.Fatalf("the job has version %d, privileged %v", j.Version, j.TaskGroups[0].Tasks[0].Privileged)
	}
	if err := a.fails(a.deploys("j")); err == nil || !strings.Contains(err.Error(), "same specification") {
		t.Errorf("the rollback: %v", err)
	}
}

// TestPrivilege_UnknownNeed checks that a task whose need only a node knows gets no privilege, whoever submits it.
func TestPrivilege_UnknownNeed(t *testing.T) {
	a := startMode(t, modeDefault, true)
	for name, edit := range map[string]func(*nomad.Task){
		"reference":           func(t *nomad.Task) { t.Config["needs_privilege"] = "${meta.reason}" },
		"instance on no node": func(t *nomad.Task) { t.Driver, t.Config = "raw-2", map[string]any{"command": "/bin/true"} },
	} {
		j := teamJob(strings.ReplaceAll(name, " ", "-"))
		edit(j.TaskGroups[0].Tasks[0])
		a.register(a.Root, j)
		if a.job(j.ID).TaskGroups[0].Tasks[0].Privileged {
			t.Errorf("%s: privilege was added", name)
		}
	}
}
