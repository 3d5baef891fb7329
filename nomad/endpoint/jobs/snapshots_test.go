package jobs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/periodic"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// counted is a Service that counts how often it and what it calls take the state.
type counted struct {
	*Service
	*testlog.Log
	taken int
}

// logRaft is Raft with the log of the test.
type logRaft struct {
	handler.Raft
	log *testlog.Log
}

// Apply writes one entry to the log of the test.
func (l logRaft) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	return l.log.Apply(ctx, t, payload)
}

func newCounted() *counted {
	c := &counted{Log: testlog.New(nil)}
	store := func() *state.Store { c.taken++; return c.Log.Store() }
	core := handler.New(handler.Config{Region: "global", Kinds: table, Schemas: schema.NewSet(drivers.Table()), Cluster: alone{}, Store: store,
		Raft: logRaft{log: c.Log}, Now: time.Now, Log: slog.New(slog.DiscardHandler), OnlyOurs: func(string) error { return nil }})
	admitter := admission.New(admission.Config{Region: "global", Kinds: table, Schemas: core.Schemas, OnlyOurs: core.OnlyOurs})
	launcher := periodic.New(periodic.Config{Store: store, Raft: c.Log, Log: core.Log, Admission: admitter})
	c.Service = New(core, nil, launcher, Config{Admission: admitter})
	return c
}

// TestOneSnapshot checks that a request reads one state, from its defaults to the index of its compare-and-set. An
// entry that is applied during the request cannot change which rules the job passed.
func TestOneSnapshot(t *testing.T) {
	all := &rpc.Call{Access: &rpc.Access{Rights: acl.Everything, Disabled: true}}
	write := message.WriteRequest{Namespace: nomad.DefaultNamespace}
	count := int64(2)
	for name, request := range map[string]func(ctx context.Context, c *counted, job *nomad.Job) error{
		"register": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Register(ctx, all, &message.JobRegisterRequest{Job: job, WriteRequest: write})
			return err
		},
		"register, enforced index": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Register(ctx, all, &message.JobRegisterRequest{Job: job, EnforceIndex: true, WriteRequest: write,
				JobModifyIndex: c.Log.Snapshot().Job(nil, job.Namespace, job.ID).JobModifyIndex})
			return err
		},
		"plan": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Plan(ctx, all, &message.JobPlanRequest{Job: job, Diff: true, WriteRequest: write})
			return err
		},
		"validate": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Validate(ctx, all, &message.JobValidateRequest{Job: job, WriteRequest: write})
			return err
		},
		"explain": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Explain(ctx, all, &message.JobExplainRequest{Job: job})
			return err
		},
		"scale": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Scale(ctx, all, &message.JobScaleRequest{JobID: job.ID, Count: &count, WriteRequest: write,
				Target: map[string]string{nomad.ScalingTargetGroup: "g"}})
			return err
		},
		"revert": func(ctx context.Context, c *counted, job *nomad.Job) error {
			_, err := c.Revert(ctx, all, &message.JobRevertRequest{JobID: job.ID, JobVersion: 0, WriteRequest: write})
			return err
		},
		"dispatch": func(ctx context.Context, c *counted, _ *nomad.Job) error {
			_, err := c.Dispatch(ctx, all, &message.JobDispatchRequest{JobID: "parent", WriteRequest: write})
			return err
		},
		"force": func(ctx context.Context, c *counted, _ *nomad.Job) error {
			_, err := c.ForcePeriodic(ctx, all, &message.PeriodicForceRequest{JobID: "cron", WriteRequest: write})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted()
			c.Log.Node(t)
			c.Log.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) { j.ID, j.ParameterizedJob = "parent", &nomad.ParameterizedJobConfig{} })
			c.Log.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
				j.ID, j.Periodic = "cron", &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC", Spec: "0 0 1 1 *"}
			})
			for n := range 2 {
				c.Log.Job(t, nomad.JobTypeBatch, n+2, func(j *nomad.Job) { j.ID = "j" })
			}
			job := codec.Copy(c.Log.Snapshot().Job(nil, nomad.DefaultNamespace, "j"))
			job.TaskGroups[0].Count++
			c.taken = 0
			if err := request(t.Context(), c, job); err != nil {
				t.Fatal(err)
			}
			if c.taken != 1 {
				t.Errorf("the request takes the state %d times, want 1", c.taken)
			}
		})
	}
}
