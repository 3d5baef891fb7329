package plan_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestApplier_Place(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
		second := codec.Copy(j.TaskGroups[0].Tasks[0])
		second.Name = "u"
		second.Identity = &nomad.WorkloadIdentity{Name: "default", Audience: []string{"own"}}
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, second)
	})
	a := testlog.NewAlloc(job, node)
	r := w.submit(place(w.plan(job), a))
	if r.RefreshIndex != 0 || len(r.RejectedNodes) != 0 || r.AllocIndex != w.Snapshot().Index() {
		t.Errorf("Submit() = %+v, want a full commit at %d", r, w.Snapshot().Index())
	}
	got := w.Snapshot().Alloc(nil, a.ID)
	want := map[string]string{"t": a.ID + "/t/default/[nomadproject.io]", "u": a.ID + "/u/default/[own]"}
	if got == nil || !maps.Equal(got.SignedIdentities, want) || got.SigningKeyID != "key-1" {
		t.Fatalf("stored allocation is %+v, want identities %v", got, want)
	}
	if got.Job == nil || got.Job.ID != job.ID || got.CreateTime == 0 || got.ModifyTime == 0 {
		t.Errorf("stored allocation lacks job or times: %+v", got)
	}
	for _, back := range r.NodeAllocation[node.ID] {
		if len(back.SignedIdentities) != 0 {
			t.Error("the result carries tokens to the worker")
		}
	}
	if len(a.SignedIdentities) != 0 || a.CreateTime != 0 {
		t.Error("the plan was modified")
	}
}

// named returns the plan in the form of a Nomad 2.0 worker: it names its job, and its allocations
// carry none.
func named(p *nomad.Plan, namespace, job string) *nomad.Plan {
	p.Job, p.JobInfo = nil, &nomad.PlanJobTuple{Namespace: namespace, ID: job}
	for _, allocs := range p.NodeAllocation {
		for i, a := range allocs {
			stripped := *a
			stripped.Job = nil
			allocs[i] = &stripped
		}
	}
	return p
}

func TestApplier_JobByName(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	a := testlog.NewAlloc(job, node)
	if r := w.submit(named(place(w.plan(job), a), job.Namespace, job.ID)); r.RefreshIndex != 0 {
		t.Errorf("Submit() = %+v, want a full commit", r)
	}
	if got := w.Snapshot().Alloc(nil, a.ID); got == nil || got.Job == nil || got.Job.ID != job.ID || got.SignedIdentities["t"] == "" {
		t.Errorf("stored allocation is %+v, want the job and an identity", got)
	}

	// If a job is registered again after the snapshot, the plan is stale.
	late := named(place(w.plan(job), testlog.NewAlloc(job, node)), job.Namespace, job.ID)
	again := codec.Copy(job)
	again.Priority = 60
	w.Must(t, message.JobRegisterRequestType,
		&message.JobRegisterRequest{Job: again, WriteRequest: message.WriteRequest{Namespace: job.Namespace}})
	if r := w.submit(late); len(r.NodeAllocation) != 0 || r.RefreshIndex < w.Snapshot().Job(nil, job.Namespace, job.ID).JobModifyIndex {
		t.Errorf("Submit() = %+v, want nothing committed and a refresh", r)
	}
	late.SnapshotIndex = w.Snapshot().Index()
	if r := w.submit(late); len(r.NodeAllocation) != 1 {
		t.Errorf("Submit() after the refresh = %+v, want it committed", r)
	}
}

func TestApplier_WrongJob(t *testing.T) {
	w := start(t)
	node, job, other := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1), w.Job(t, nomad.JobTypeBatch, 1)
	for name, p := range map[string]*nomad.Plan{
		"an unknown job":    named(place(w.plan(job), testlog.NewAlloc(job, node)), job.Namespace, "gone"),
		"another namespace": named(place(w.plan(job), testlog.NewAlloc(job, node)), "gone", job.ID),
		"another job":       named(place(w.plan(job), testlog.NewAlloc(job, node)), other.Namespace, other.ID),
	} {
		if r, err := w.applier.Submit(context.Background(), p); err == nil {
			t.Errorf("%s: Submit() = %+v, want an error", name, r)
		}
	}
	// Allocations of a purged job are still stopped.
	old := w.Alloc(t, job, node)
	p := named(w.plan(job), job.Namespace, job.ID)
	p.NodeUpdate[node.ID] = []*nomad.Allocation{{ID: old.ID, DesiredDescription: "purged"}}
	w.Must(t, message.JobDeregisterRequestType,
		&message.JobDeregisterRequest{JobID: job.ID, Purge: true, WriteRequest: message.WriteRequest{Namespace: job.Namespace}})
	p.SnapshotIndex = w.Snapshot().Index()
	w.submit(p)
	if got := w.Snapshot().Alloc(nil, old.ID); got.DesiredStatus != nomad.AllocDesiredStatusStop || got.DesiredDescription != "purged" ||
		got.Job == nil {
		t.Errorf("stopped allocation is %+v", got)
	}
}

func TestSign_Updates(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	a := testlog.NewAlloc(job, node)
	w.submit(place(w.plan(job), a))
	before := w.Snapshot().Alloc(nil, a.ID).SignedIdentities
	w.minter.err = errors.New("nothing to sign")

	update := *w.Snapshot().Alloc(nil, a.ID)
	update.DesiredDescription = "updated"
	update.SignedIdentities = map[string]string{"t": "forged"}
	w.submit(place(w.plan(job), &update))
	got := w.Snapshot().Alloc(nil, a.ID)
	if got.DesiredDescription != "updated" || !maps.Equal(got.SignedIdentities, before) {
		t.Errorf("updated allocation is %+v, want identities %v", got, before)
	}
}

func TestSign_NoKey(t *testing.T) {
	w := start(t)
	w.minter.err = errors.New("no active signing key")
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	a := testlog.NewAlloc(job, node)
	if _, err := w.applier.Submit(context.Background(), place(w.plan(job), a)); !errors.Is(err, w.minter.err) {
		t.Errorf("Submit() = %v, want %v", err, w.minter.err)
	}
	if w.Snapshot().Alloc(nil, a.ID) != nil {
		t.Error("an allocation without identity was committed")
	}
}

func TestApplier_Rejects(t *testing.T) {
	for name, edit := range map[string]func(*nomad.Node){
		"down":       func(n *nomad.Node) { n.Status = nomad.NodeStatusDown },
		"not ready":  func(n *nomad.Node) { n.Status = nomad.NodeStatusInit },
		"ineligible": func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible },
		"full":       func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 50 },
		"gone":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			good, bad := w.Node(t), &nomad.Node{ID: nomad.NewID()}
			if edit != nil {
				bad = w.Node(t, edit)
			}
			job := w.Job(t, nomad.JobTypeBatch, 2)
			fine, refused := testlog.NewAlloc(job, good), testlog.NewAlloc(job, bad)
			r := w.submit(place(w.plan(job), fine, refused))
			if !slices.Equal(r.RejectedNodes, []string{bad.ID}) || len(r.NodeAllocation) != 1 {
				t.Errorf("Submit() = %+v, want %s rejected", r, bad.ID)
			}
			if r.RefreshIndex != r.AllocIndex || r.AllocIndex == 0 {
				t.Errorf("RefreshIndex is %d, want that of the commit, %d", r.RefreshIndex, r.AllocIndex)
			}
			if w.Snapshot().Alloc(nil, fine.ID) == nil || w.Snapshot().Alloc(nil, refused.ID) != nil {
				t.Error("want the fitting allocation committed, and no other")
			}

			all := place(w.plan(job), testlog.NewAlloc(job, good), testlog.NewAlloc(job, bad))
			all.AllAtOnce = true
			before := w.Snapshot().Index()
			r = w.submit(all)
			if len(r.NodeAllocation) != 0 || r.RefreshIndex == 0 || r.AllocIndex != 0 || w.Snapshot().Index() != before {
				t.Errorf("Submit(all at once) = %+v, want nothing committed", r)
			}
		})
	}
}

func TestApplier_IneligibleNode(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	a := w.Alloc(t, job, node)
	w.Must(t, message.NodeUpdateEligibilityRequestType,
		&message.NodeUpdateEligibilityRequest{NodeID: node.ID, Eligibility: nomad.NodeSchedulingIneligible})
	update := *a
	update.DesiredDescription = "updated"
	if r := w.submit(place(w.plan(job), &update)); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want the update in place", r)
	}
	if r := w.submit(place(w.plan(job), &update, testlog.NewAlloc(job, node))); len(r.RejectedNodes) != 1 {
		t.Errorf("Submit() = %+v, want the node rejected", r)
	}
}

func TestApplier_Stop(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	old := w.Alloc(t, job, node, cpu(4000))
	stop := *old
	stop.DesiredDescription, stop.ClientStatus = "too old", nomad.AllocClientStatusLost

	tooMuch := place(w.plan(job), testlog.NewAlloc(job, node, cpu(4001)))
	tooMuch.NodeUpdate[node.ID] = []*nomad.Allocation{&stop}
	if r := w.submit(tooMuch); len(r.NodeUpdate) != 0 {
		t.Errorf("Submit() = %+v, want nothing stopped on a rejected node", r)
	}
	if got := w.Snapshot().Alloc(nil, old.ID); got.DesiredStatus != nomad.AllocDesiredStatusRun {
		t.Errorf("allocation is %q, want it to run on", got.DesiredStatus)
	}

	fresh := testlog.NewAlloc(job, node, cpu(4000))
	p := place(w.plan(job), fresh)
	p.NodeUpdate[node.ID] = []*nomad.Allocation{&stop}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want the capacity of the stopped one reused", r)
	}
	got := w.Snapshot().Alloc(nil, old.ID)
	if got.DesiredStatus != nomad.AllocDesiredStatusStop || got.DesiredDescription != "too old" ||
		got.ClientStatus != nomad.AllocClientStatusLost || got.Job == nil {
		t.Errorf("stopped allocation is %+v", got)
	}
}

func TestApplier_Preempt(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	low := w.Job(t, nomad.JobTypeService, 2, func(j *nomad.Job) { j.Priority = 10 })
	victims := []*nomad.Allocation{w.Alloc(t, low, node, cpu(2000)), w.Alloc(t, low, node, cpu(2000))}
	high := w.Job(t, nomad.JobTypeService, 1)
	fresh := testlog.NewAlloc(high, node, cpu(4000))
	p := place(w.plan(high), fresh)
	for _, v := range victims {
		clone := *v
		clone.PreemptedByAllocation = fresh.ID
		p.NodePreemptions[node.ID] = append(p.NodePreemptions[node.ID], &clone)
	}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want it to fit", r)
	}
	snap := w.Snapshot()
	for _, v := range victims {
		if got := snap.Alloc(nil, v.ID); got.DesiredStatus != nomad.AllocDesiredStatusEvict || got.PreemptedByAllocation != fresh.ID {
			t.Errorf("preempted allocation is %+v", got)
		}
	}
	evals := slices.Collect(snap.EvalsByJob(nil, low.Namespace, low.ID))
	if len(evals) != 1 || evals[0].TriggeredBy != nomad.EvalTriggerPreemption || evals[0].Status != nomad.EvalStatusPending {
		t.Errorf("evaluations of the preempted job: %+v, want one", evals)
	}
}

func TestApplier_LostEvaluation(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	p := place(w.plan(job), testlog.NewAlloc(job, node))
	p.EvalToken = "lost"
	if r, err := w.applier.Submit(context.Background(), p); err == nil {
		t.Errorf("Submit() = %+v, want a refusal", r)
	}
}

// TestApplier_SameSnapshot moves an evaluation from one worker to another, and both submit a
// plan.
func TestApplier_SameSnapshot(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	first := w.plan(job)
	second := *first
	second.NodeAllocation = map[string][]*nomad.Allocation{}
	w.submit(place(first, testlog.NewAlloc(job, node)))
	committed := w.Snapshot().Index()
	r := w.submit(place(&second, testlog.NewAlloc(job, node)))
	if len(r.NodeAllocation) != 0 || r.RefreshIndex < committed {
		t.Errorf("Submit() = %+v, want nothing committed and a refresh at %d", r, committed)
	}
	second.SnapshotIndex = r.RefreshIndex
	if r := w.submit(&second); len(r.NodeAllocation) != 1 {
		t.Errorf("Submit() after the refresh = %+v, want it committed", r)
	}
}

func TestApplier_EndedDeployment(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeService, 1)
	p := w.plan(job)
	p.Deployment = &nomad.Deployment{ID: nomad.NewID(), Namespace: job.Namespace, JobID: job.ID, Status: nomad.DeploymentStatusRunning}
	w.submit(p)
	update := &nomad.DeploymentStatusUpdate{DeploymentID: p.Deployment.ID, Status: nomad.DeploymentStatusSuccessful}
	w.Must(t, message.DeploymentStatusUpdateRequestType, &message.DeploymentStatusUpdateRequest{DeploymentUpdate: update})

	again := place(w.plan(job), testlog.NewAlloc(job, node))
	again.DeploymentUpdates = []*nomad.DeploymentStatusUpdate{{DeploymentID: p.Deployment.ID, Status: nomad.DeploymentStatusCancelled}}
	w.submit(again)
	if d := w.Snapshot().Deployment(nil, p.Deployment.ID); d.Status != nomad.DeploymentStatusSuccessful {
		t.Errorf("deployment is %s, want it to stay successful", d.Status)
	}
}

// A failed allocation is marked for its follow-up evaluation on any node.
func TestApplier_TerminalAllocation(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	a := w.Alloc(t, job, node)
	failed := *a
	failed.ClientStatus = nomad.AllocClientStatusFailed
	w.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&failed}})
	w.Must(t, message.NodeUpdateEligibilityRequestType,
		&message.NodeUpdateEligibilityRequest{NodeID: node.ID, Eligibility: nomad.NodeSchedulingIneligible})
	mark := failed
	mark.FollowupEvalID = nomad.NewID()
	if r := w.submit(place(w.plan(job), &mark)); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want the mark", r)
	}
}
