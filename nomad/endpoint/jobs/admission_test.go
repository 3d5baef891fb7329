package jobs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// jobWorld is a server with a namespace "team", and a caller that can write its jobs and nothing else.
type jobWorld struct {
	*servertest.ACLServer
	writer string
	log    *servertest.Log
}

func admits(t *testing.T) *jobWorld {
	log := &servertest.Log{}
	s, _ := servertest.StartLogging(t, func(c *server.Config) {
		c.Access.Enabled, c.Kinds, c.JobMaxPriority, c.JobMaxCount = true, drivers.Table(), 90, 20
	}, slog.New(slog.NewTextHandler(log, nil)))
	g := servertest.NewACLServer(t, s)
	root, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = root.SecretID
	g.Must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}, nil)
	a := &jobWorld{ACLServer: g, log: log, writer: g.TokenWith(`namespace "team" { policy = "write" }`)}
	a.namespace(&nomad.Namespace{})
	return a
}

// namespace sets the rules of the namespace.
func (a *jobWorld) namespace(rules *nomad.Namespace) {
	a.Helper()
	rules.Name = "team"
	a.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{rules}}, nil)
}

// teamJob returns a job that every rule admits.
func teamJob(id string) *nomad.Job {
	j := servertest.BatchJob(id, 1)
	j.Namespace, j.Region, j.Priority, j.NodePool = "team", "global", 50, "gpu"
	j.TaskGroups[0].Tasks[0].Config = map[string]any{"run_for": "1s", "isolation": "host"}
	return j
}

// store writes a job without admission, like a server of another version, and returns it as stored.
func (a *jobWorld) store(j *nomad.Job) *nomad.Job {
	a.Helper()
	j = codec.Copy(j)
	jobrules.Canonicalize(j)
	j.SubmitTime = time.Now().UnixNano()
	if err := a.Server.Apply(a.Context(), message.JobRegisterRequestType, &message.JobRegisterRequest{Job: j}); err != nil {
		a.Fatal(err)
	}
	return a.job(j.ID)
}

func (a *jobWorld) job(id string) *nomad.Job { return a.Server.State().Snapshot().Job(nil, "team", id) }

// deploys creates a running deployment of the current version of a job, whose failure reverts the job.
func (a *jobWorld) deploys(job string) (id string) {
	a.Helper()
	j := a.job(job)
	id = nomad.NewID()
	if err := a.Server.Apply(a.Context(), message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
		ID: id, Namespace: "team", JobID: j.ID, JobVersion: j.Version, JobCreateIndex: j.CreateIndex, CreateTime: time.Now().UnixNano(),
		Status:     nomad.DeploymentStatusRunning,
		TaskGroups: map[string]*nomad.DeploymentState{"g": {AutoRevert: true, DesiredTotal: 1, ProgressDeadline: time.Hour}}}}); err != nil {
		a.Fatal(err)
	}
	return id
}

// fails fails a deployment, and returns why the job was not reverted, nil if it was.
func (a *jobWorld) fails(id string) error {
	a.Helper()
	before := a.job(a.Server.State().Snapshot().Deployment(nil, id).JobID)
	a.Must("Deployment.Fail", &message.DeploymentFailRequest{DeploymentID: id}, nil)
	d := a.Server.State().Snapshot().Deployment(nil, id)
	if a.job(before.ID).Version != before.Version {
		return nil
	}
	if d.Status != nomad.DeploymentStatusFailed {
		a.Errorf("the deployment is %s", d.Status)
	}
	return errors.New(d.StatusDescription)
}

// service makes a job one that can be deployed.
func service(j *nomad.Job) *nomad.Job {
	j.Type = nomad.JobTypeService
	return j
}

// ruleOfJobs is a rule of admission: a job that breaks it, or a change of the region after which it does.
type ruleOfJobs struct {
	job    func(*nomad.Job)
	change func(*jobWorld)
	refuse string // part of the refusal
	// free are the paths that the rule does not apply to, with the reason.
	free map[string]string
}

func jobRules() map[string]ruleOfJobs {
	task := func(f func(*nomad.Task)) func(*nomad.Job) { return func(j *nomad.Job) { f(j.TaskGroups[0].Tasks[0]) } }
	rules := func(ns nomad.Namespace) func(*jobWorld) { return func(a *jobWorld) { a.namespace(&ns) } }
	return map[string]ruleOfJobs{
		"right on privileged tasks": {refuse: "privileged-execution",
			free: map[string]string{"launch": "the parent was registered with the right"},
			job: task(func(t *nomad.Task) {
				t.Driver, t.Privileged, t.Config = "raw_exec", true, map[string]any{"command": "/bin/true"}
			})},
		"right on host volumes": {refuse: "mount", free: map[string]string{
			"launch": "the parent was registered with the right", "dispatch": "as in Nomad, the right of the registration counts",
			"force": "as for a dispatch", "plan": "as in Nomad, a plan mounts nothing",
			"scale": "as in Nomad, the right of the registration counts"},
			job: func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data"}}
			}},
		"drivers of the namespace": {refuse: "not allowed in namespace",
			change: rules(nomad.Namespace{Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"mock_driver"}}})},
		"network modes": {refuse: "network mode",
			change: rules(nomad.Namespace{Capabilities: &nomad.NamespaceCapabilities{DisabledNetworkModes: []string{"host"}}})},
		"node pools of a namespace": {refuse: "node pool",
			change: rules(nomad.Namespace{NodePoolConfiguration: &nomad.NamespaceNodePoolConfiguration{Allowed: []string{}}})},
		"isolation level": {refuse: "requires isolation",
			change: rules(nomad.Namespace{Isolation: &nomad.NamespaceIsolation{Minimum: "strict", Enforce: true}})},
		"isolation of the task": {refuse: "requires isolation", job: task(func(t *nomad.Task) { t.Isolation = "strict" })},
		"need of privilege": {refuse: "needs privilege", job: task(func(t *nomad.Task) {
			t.Driver, t.Config = "raw_exec", map[string]any{"command": "/bin/true"}
		})},
		"maximum priority": {refuse: "job_max_priority", job: func(j *nomad.Job) { j.Priority = 99 }},
		"maximum count": {refuse: "the limit is 20", job: func(j *nomad.Job) { j.TaskGroups[0].Count = 30 },
			free: map[string]string{"scale": "it sets the count"}},
		"validation":       {refuse: "kill_timeout", job: task(func(t *nomad.Task) { t.KillTimeout = -1 })},
		"config of driver": {refuse: "no_such_option", job: task(func(t *nomad.Task) { t.Config["no_such_option"] = true })},
		"spiffe":           {refuse: "trust domain", job: task(func(t *nomad.Task) { t.Spiffe = &nomad.TaskSpiffe{JWT: true} })},
		"registration closed": {refuse: "job registration", free: map[string]string{"plan": "it writes nothing"}, change: func(a *jobWorld) {
			_, cfg := a.Server.State().Snapshot().SchedulerConfig(nil)
			closed := *cfg
			closed.RejectJobRegistration = true
			a.Must("Operator.SchedulerSetConfiguration", &message.SchedulerSetConfigRequest{Config: closed}, nil)
		}},
	}
}

// jobWrites are all ways to write a job. Each prepares a job with the changes of edit, and returns the write, which
// returns an error if it was refused.
func jobWrites() map[string]func(a *jobWorld, edit func(*nomad.Job)) func() error {
	by := func(a *jobWorld, method string, req rpc.Request) func() error {
		return func() error { return a.Call(a.writer, method, req, nil) }
	}
	in := message.WriteRequest{Namespace: "team"}
	edited := func(j *nomad.Job, edit func(*nomad.Job)) *nomad.Job { edit(j); return j }
	periodic := func(j *nomad.Job, spec string) *nomad.Job {
		j.Periodic = &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", Spec: spec, TimeZone: "UTC"}
		return j
	}
	return map[string]func(*jobWorld, func(*nomad.Job)) func() error{
		"register": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			return by(a, "Job.Register", &message.JobRegisterRequest{Job: edited(teamJob("j"), edit), WriteRequest: in})
		},
		"plan": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			return by(a, "Job.Plan", &message.JobPlanRequest{Job: edited(teamJob("j"), edit), WriteRequest: in})
		},
		"scale": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			a.store(edited(teamJob("j"), edit))
			two := int64(2)
			return by(a, "Job.Scale", &message.JobScaleRequest{JobID: "j", Target: map[string]string{"Group": "g"}, Count: &two, WriteRequest: in})
		},
		"dispatch": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			j := teamJob("j")
			j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "optional"}
			a.store(edited(j, edit))
			return by(a, "Job.Dispatch", &message.JobDispatchRequest{JobID: "j", WriteRequest: in})
		},
		"revert": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			a.store(edited(teamJob("j"), edit))
			a.store(teamJob("j"))
			return by(a, "Job.Revert", &message.JobRevertRequest{JobID: "j", WriteRequest: in})
		},
		"force": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			a.store(edited(periodic(teamJob("j"), "0 0 1 1 *"), edit))
			return by(a, "Periodic.Force", &message.PeriodicForceRequest{JobID: "j", WriteRequest: in})
		},
		"launch": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			return func() error {
				a.store(edited(periodic(teamJob("j"), "* * * * * * *"), edit))
				return a.launched("j")
			}
		},
		"automatic rollback": func(a *jobWorld, edit func(*nomad.Job)) func() error {
			a.store(edited(service(teamJob("j")), edit))
			if err := a.Server.Apply(a.Context(), message.JobStabilityRequestType,
				&message.JobStabilityRequest{JobID: "j", Stable: true, WriteRequest: in}); err != nil {
				a.Fatal(err)
			}
			next := service(teamJob("j"))
			next.TaskGroups[0].Tasks[0].Config["run_for"] = "2s"
			if err := a.Call(a.writer, "Job.Register", &message.JobRegisterRequest{Job: next, WriteRequest: in}, nil); err != nil {
				a.Fatal(err)
			}
			id := a.deploys("j")
			return func() error { return a.fails(id) }
		},
	}
}

// launched waits until the leader has decided on a launch of a job. It returns an error if it did not launch it.
func (a *jobWorld) launched(job string) error {
	a.Helper()
	children := func() (n int) {
		for range a.Server.State().Snapshot().JobChildren(nil, "team", job) {
			n++
		}
		return n
	}
	const refused = "launch a periodic job"
	servertest.Eventually(a.T, func() bool { return children() > 0 || a.log.Line(refused, "job="+job) != "" })
	if children() > 0 {
		return nil
	}
	return errors.New(a.log.Line(refused, "job="+job))
}

// Every write of a job passes every rule of admission, whoever makes it.
func TestAdmission_EveryWrite(t *testing.T) {
	t.Parallel()
	for path, prepare := range jobWrites() {
		t.Run(path, func(t *testing.T) {
			t.Run("admitted", func(t *testing.T) {
				if err := prepare(admits(t), func(*nomad.Job) {})(); err != nil {
					t.Errorf("a job that all rules admit: %v", err)
				}
			})
			for name, rule := range jobRules() {
				t.Run(name, func(t *testing.T) {
					a, edit := admits(t), rule.job
					if edit == nil {
						edit = func(*nomad.Job) {}
					}
					write := prepare(a, edit)
					if rule.change != nil {
						rule.change(a)
					}
					err := write()
					switch why := rule.free[path]; {
					case why != "" && err != nil:
						t.Errorf("refused: %v, although %s", err, why)
					case why == "" && err == nil:
						t.Error("the job was written")
					case why == "" && !strings.Contains(strings.ToLower(fmt.Sprint(err)), rule.refuse):
						t.Errorf("the error is %q, which does not name %q", err, rule.refuse)
					}
				})
			}
		})
	}
}

// raw makes the task of a job a privileged one.
func raw(j *nomad.Job) *nomad.Job {
	t := j.TaskGroups[0].Tasks[0]
	t.Driver, t.Privileged, t.Config = "raw_exec", true, map[string]any{"command": "/bin/true"}
	return j
}

func (a *jobWorld) register(secret string, j *nomad.Job) {
	a.Helper()
	if err := a.Call(secret, "Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: message.WriteRequest{Namespace: "team"}},
		nil); err != nil {
		a.Fatal(err)
	}
}

func (a *jobWorld) stable(secret string, version uint64, stable bool) error {
	return a.Call(secret, "Job.Stable", &message.JobStabilityRequest{JobID: "j", JobVersion: version, Stable: stable,
		WriteRequest: message.WriteRequest{Namespace: "team"}}, nil)
}

// A rollback has the rights of the author of the version that failed, as they were when it was registered.
func TestAdmission_RollbackRights(t *testing.T) {
	const operator = `namespace "team" {` + "\n" + `policy = "write"` + "\n" + `capabilities = ["privileged-execution"]` + "\n}"
	for name, c := range map[string]struct {
		author  func(*jobWorld) string
		stopped bool // the operator stops the job before
		allowed bool
	}{
		"management":            {func(a *jobWorld) string { return a.Root }, false, true},
		"with the right":        {func(a *jobWorld) string { return a.TokenWith(operator) }, false, true},
		"without":               {func(a *jobWorld) string { return a.writer }, false, false},
		"without, stopped":      {func(a *jobWorld) string { return a.writer }, true, false},
		"with the right, again": {func(a *jobWorld) string { return a.TokenWith(operator) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := admits(t)
			a.register(a.Root, raw(service(teamJob("j"))))
			if err := a.stable(a.Root, 0, true); err != nil {
				t.Fatal(err)
			}
			if c.stopped {
				a.Must("Job.Deregister", &message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "team"}}, nil)
			}
			author := c.author(a)
			a.register(author, service(teamJob("j")))
			err := a.fails(a.deploys("j"))
			if c.allowed {
				if now := a.job("j"); err != nil || !now.TaskGroups[0].Tasks[0].Privileged {
					t.Fatalf("the job is not rolled back: %v", err)
				}
				// The version that runs again has the rights of the same author.
				a.register(author, service(teamJob("j")))
				if err := a.fails(a.deploys("j")); err != nil {
					t.Errorf("the second rollback: %v", err)
				}
				return
			}
			const want = `Deployment marked as failed - not rolling back to stable job version 0: task "t" of group "g" is privileged: needs privileged-execution in namespace "team"`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("status description %v, want %q", err, want)
			}
			if now := a.job("j"); now.TaskGroups[0].Tasks[0].Privileged || now.Stop {
				t.Errorf("the job is %+v", now)
			}
		})
	}
}

// A caller cannot choose a version for rollbacks that it may not run, by marking it or by unmarking later ones. This also
// protects the deployments of others.
func TestAdmission_StableRights(t *testing.T) {
	a := admits(t)
	a.register(a.Root, raw(service(teamJob("j"))))
	a.register(a.Root, service(teamJob("j")))
	for version, stable := range map[uint64]bool{0: true, 1: true} {
		if err := a.stable(a.Root, version, stable); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		version uint64
		stable  bool
		by      string
		allowed bool
	}{
		{1, false, a.writer, false}, // version 0 would be the newest
		{0, true, a.writer, true},   // nothing changes
		{0, false, a.writer, true},
		{1, false, a.writer, true}, // no version is left
		{0, true, a.writer, false},
		{0, true, a.Root, true},
		{1, true, a.writer, true},
	} {
		err := a.stable(c.by, c.version, c.stable)
		if (err == nil) != c.allowed || err != nil &&
			(!errors.Is(err, apierror.ErrPermissionDenied) || !strings.Contains(err.Error(), "privileged-execution")) {
			t.Errorf("version %d, stable %v: %v, want allowed %v", c.version, c.stable, err, c.allowed)
		}
	}
}

// A caller cannot submit rights of an author.
func TestForged_Rights(t *testing.T) {
	a := admits(t)
	a.register(a.Root, raw(service(teamJob("j"))))
	if err := a.stable(a.Root, 0, true); err != nil {
		t.Fatal(err)
	}
	j := service(teamJob("j"))
	j.Registrant = &nomad.Registrant{Management: true, Rights: []string{`privileged-execution in namespace "team"`}}
	a.register(a.writer, j)
	if got := a.job("j").Registrant; got != nil {
		t.Errorf("the job has the rights %+v", got)
	}
	if err := a.fails(a.deploys("j")); err == nil {
		t.Error("the job was rolled back")
	}
}

// Registration that was closed later stops the servers too, except for jobs of management tokens.
func TestAdmission_ClosedForManagement(t *testing.T) {
	a := admits(t)
	j := service(teamJob("j"))
	a.register(a.Root, j)
	if err := a.stable(a.Root, 0, true); err != nil {
		t.Fatal(err)
	}
	j = service(teamJob("j"))
	j.TaskGroups[0].Tasks[0].Config["run_for"] = "2s"
	a.register(a.Root, j)
	jobRules()["registration closed"].change(a)
	if err := a.fails(a.deploys("j")); err != nil {
		t.Error(err)
	}
}

// A job whose ID no request can have today, from an earlier version, can be stopped.
func TestDeregister_LongID(t *testing.T) {
	a := admits(t)
	j := teamJob("par/dispatch-" + strings.Repeat("é", 10_000) + "-1-abcdefgh")
	a.store(j)
	if err := a.Call(a.writer, "Job.Deregister",
		&message.JobDeregisterRequest{JobID: j.ID, WriteRequest: message.WriteRequest{Namespace: "team"}}, nil); err != nil {
		t.Fatal(err)
	}
	if !a.job(j.ID).Stop {
		t.Error("the job is not stopped")
	}
}
