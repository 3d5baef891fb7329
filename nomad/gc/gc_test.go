package gc_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// servers executes the RPCs of a Collector by writing their log entries.
type servers struct {
	*testlog.Log
	before func(method string)
	sizes  []int
	again  []*nomad.Evaluation
	// retried has the CSI volumes whose claims are to be released, as namespace/ID.
	retried []string
}

func (s *servers) Call(ctx context.Context, method string, req, resp any) error {
	if s.before != nil {
		s.before(method)
	}
	switch r := req.(type) { // like the endpoints
	case *message.KeyringRotateRootKeyRequest:
		return s.key(ctx, &rootkey.Key{KeyID: nomad.NewID(), State: rootkey.Prepublished,
			CreateTime: time.Now().UnixNano(), PublishTime: r.PublishTime})
	case *message.KeyringUpdateRootKeyRequest:
		k := *s.Snapshot().RootKey(nil, r.RootKey.Meta.KeyID)
		k.State, k.PublishTime = r.RootKey.Meta.State, 0
		return s.key(ctx, &k)
	case *message.VariablesReadRequest:
		if v := s.Snapshot().Variable(nil, r.Namespace, r.Path); v != nil {
			resp.(*message.VariablesReadResponse).Data = &variable.Decrypted{Metadata: v.Metadata}
		}
		return nil
	case *message.VariablesApplyRequest:
		v := &variable.Encrypted{Metadata: r.Var.Metadata,
			Ciphertext: variable.Ciphertext{Data: []byte("new"), KeyID: "new"}}
		_, err := s.Apply(ctx, message.VarApplyStateRequestType, &message.VarApplyStateRequest{Op: r.Op, Var: v})
		return err
	case *message.CSIVolumeUnpublishRequest:
		if r.Claim.Mode != csi.ClaimGC || r.Claim.AllocationID != "" {
			return fmt.Errorf("unpublish %+v", r.Claim)
		}
		s.retried = append(s.retried, r.Namespace+"/"+r.VolumeID)
		return nil
	case *message.CSIVolumeResealRequest:
		v := *s.Snapshot().CSIVolume(nil, r.Namespace, r.VolumeID)
		v.Sealed = &csi.Sealed{KeyID: "new"}
		_, err := s.Apply(ctx, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{&v}})
		return err
	case *message.EvalUpdateRequest:
		s.again = append(s.again, r.Evals...)
		return nil
	}
	types := map[string]message.CommandType{
		"Eval.Reap":            message.EvalDeleteRequestType,
		"Job.BatchDeregister":  message.JobBatchDeregisterRequestType,
		"Node.BatchDeregister": message.NodeBatchDeregisterRequestType,
		"Deployment.Reap":      message.DeploymentDeleteRequestType,
		"Keyring.Delete":       message.WrappedRootKeysDeleteRequestType,
		"CSIPlugin.Delete":     message.CSIPluginDeleteRequestType,
	}
	typ, ok := types[method]
	if !ok {
		return fmt.Errorf("no method %s", method)
	}
	if r, ok := req.(*message.EvalReapRequest); ok {
		s.sizes = append(s.sizes, len(r.Evals)+len(r.Allocs))
	}
	_, err := s.Apply(ctx, typ, req)
	return err
}

// key writes a root key.
func (s *servers) key(ctx context.Context, k *rootkey.Key) error {
	_, err := s.Apply(ctx, message.WrappedRootKeysUpsertRequestType, &message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: k})
	return err
}

type world struct {
	*servers
	t *testing.T
	c *gc.Collector
}

func test(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &servers{Log: testlog.New(nil)}
		fn(&world{s, t, gc.New(gc.Config{RPC: s, Store: s.Store, Log: slog.New(slog.DiscardHandler)})})
	})
}

func (w *world) run(coreJob string) {
	w.t.Helper()
	if err := w.c.Process(w.t.Context(), nomad.NewCoreEval(coreJob, w.Snapshot().Index(), time.Now())); err != nil {
		w.t.Errorf("Process(%s) = %v", coreJob, err)
	}
}

func complete(e *nomad.Evaluation) { e.Status = nomad.EvalStatusComplete }

func client(status string) func(*nomad.Allocation) {
	return func(a *nomad.Allocation) { a.ClientStatus = status }
}

func desired(status string) func(*nomad.Allocation) {
	return func(a *nomad.Allocation) { a.DesiredStatus = status }
}

func of(e *nomad.Evaluation) func(*nomad.Allocation) {
	return func(a *nomad.Allocation) { a.EvalID = e.ID }
}

func stopped(j *nomad.Job) { j.Stop = true }

func TestEvalGC(t *testing.T) {
	for name, tt := range map[string]struct {
		typ    string
		job    func(*nomad.Job)
		eval   func(*nomad.Evaluation)
		alloc  []func(*nomad.Allocation) // nil for no allocation
		after  time.Duration             // default: one hour
		noEval bool                      // whether the evaluation is deleted
		gone   bool                      // whether the allocation is deleted
	}{
		"ended":                  {eval: complete, noEval: true},
		"failed":                 {eval: func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusFailed }, noEval: true},
		"too young":              {eval: complete, after: time.Hour - time.Nanosecond},
		"pending":                {},
		"blocked":                {eval: func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked }},
		"running allocation":     {eval: complete, alloc: []func(*nomad.Allocation){client("running")}},
		"complete allocation":    {eval: complete, alloc: []func(*nomad.Allocation){client("complete")}, noEval: true, gone: true},
		"stopped, still running": {eval: complete, alloc: []func(*nomad.Allocation){client("running"), desired("stop")}},
		"stopped and complete": {eval: complete, alloc: []func(*nomad.Allocation){client("complete"), desired("stop")}, noEval: true,
			gone: true},
		"failed, rescheduled later": {eval: complete, job: unlimited, alloc: []func(*nomad.Allocation){client("failed")}},
		"failed, has a successor": {eval: complete, job: unlimited, alloc: []func(*nomad.Allocation){client("failed"), successor},
			noEval: true, gone: true},
		"failed, not rescheduled": {eval: complete, alloc: []func(*nomad.Allocation){client("failed")}, noEval: true, gone: true},
		"batch after an hour":     {typ: nomad.JobTypeBatch, job: stopped, eval: complete},
		"batch after a day":       {typ: nomad.JobTypeBatch, job: stopped, eval: complete, after: 24 * time.Hour, noEval: true},
		"live batch job": {typ: nomad.JobTypeBatch, job: parameterized, eval: complete,
			alloc: []func(*nomad.Allocation){client("complete")}, after: 48 * time.Hour},
		"live sysbatch job": {typ: nomad.JobTypeSysBatch, job: parameterized, eval: complete,
			alloc: []func(*nomad.Allocation){client("complete")}, after: 48 * time.Hour},
		"batch that was stopped": {typ: nomad.JobTypeBatch, job: stopped, eval: complete, alloc: []func(*nomad.Allocation){client("complete")},
			after: 24 * time.Hour, noEval: true, gone: true},
		"old and pending": {after: 1000 * time.Hour},
		"old and running": {eval: complete, alloc: []func(*nomad.Allocation){client("running")}, after: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				edit := func(*nomad.Job) {}
				if tt.job != nil {
					edit = tt.job
				}
				typ := tt.typ
				if typ == "" {
					typ = nomad.JobTypeService
				}
				job := w.Job(t, typ, 1, edit)
				e := w.Eval(t, job)
				var a *nomad.Allocation
				if tt.alloc != nil {
					a = w.Alloc(t, job, w.Node(t), append(tt.alloc, of(e))...)
				}
				if tt.eval != nil {
					done := *e
					tt.eval(&done)
					w.Must(t, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{&done}})
				}
				w.Eval(t, job) // a later evaluation: the job is live
				if tt.after == 0 {
					tt.after = time.Hour
				}
				time.Sleep(tt.after)
				w.run(nomad.CoreJobEvalGC)
				snap := w.Snapshot()
				if got := snap.Eval(nil, e.ID) == nil; got != tt.noEval {
					t.Errorf("evaluation gone: %v, want %v", got, tt.noEval)
				}
				if a != nil {
					if got := snap.Alloc(nil, a.ID) == nil; got != tt.gone {
						t.Errorf("allocation gone: %v, want %v", got, tt.gone)
					}
				}
			})
		})
	}
}

func unlimited(j *nomad.Job) {
	j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: time.Minute}
}

func successor(a *nomad.Allocation) { a.NextAllocation = nomad.NewID() }

func parameterized(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }

func TestEvalGC_NodeDown(t *testing.T) {
	test(t, func(w *world) {
		job := w.Job(t, nomad.JobTypeService, 1)
		e := w.Eval(t, job, complete)
		down := w.Node(t, func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		a := w.Alloc(t, job, down, of(e), client("running"), desired("stop"))
		time.Sleep(time.Hour)
		w.run(nomad.CoreJobEvalGC)
		if w.Snapshot().Alloc(nil, a.ID) != nil {
			t.Error("an allocation on a lost node was kept")
		}
	})
}

func TestJobGC(t *testing.T) {
	for name, tt := range map[string]struct {
		typ   string
		edit  func(*nomad.Job)
		alloc string // client status, "" for none
		eval  string // status
		after time.Duration
		gone  bool
	}{
		"batch, done":            {typ: nomad.JobTypeBatch, alloc: "complete", eval: "complete", gone: true},
		"batch, too young":       {typ: nomad.JobTypeBatch, alloc: "complete", eval: "complete", after: 4*time.Hour - time.Second},
		"batch, running":         {typ: nomad.JobTypeBatch, alloc: "running", eval: "complete"},
		"batch, not yet started": {typ: nomad.JobTypeBatch, eval: "pending"},
		"batch, parameterized":   {typ: nomad.JobTypeBatch, edit: parameterized, eval: "complete"},
		"batch, periodic": {typ: nomad.JobTypeBatch, edit: func(j *nomad.Job) { j.Periodic = &nomad.PeriodicConfig{Enabled: true} },
			eval: "complete"},
		"service, stopped":      {typ: nomad.JobTypeService, edit: stopped, alloc: "complete", eval: "complete", gone: true},
		"service, still ending": {typ: nomad.JobTypeService, edit: stopped, alloc: "running", eval: "complete"},
		"service, alive":        {typ: nomad.JobTypeService, alloc: "running", eval: "complete"},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				edit := func(*nomad.Job) {}
				if tt.edit != nil {
					edit = tt.edit
				}
				job := w.Job(t, tt.typ, 1, edit)
				e := w.Eval(t, job, func(e *nomad.Evaluation) { e.Status = tt.eval })
				if tt.alloc != "" {
					w.Alloc(t, job, w.Node(t), of(e), client(tt.alloc))
				}
				if tt.after == 0 {
					tt.after = 4 * time.Hour
				}
				time.Sleep(tt.after)
				w.run(nomad.CoreJobJobGC)
				snap := w.Snapshot()
				if got := snap.Job(nil, job.Namespace, job.ID) == nil; got != tt.gone {
					t.Errorf("job gone: %v, want %v (its status is %q)", got, tt.gone, job.Status)
				}
				left := len(slices.Collect(snap.EvalsByJob(nil, job.Namespace, job.ID))) +
					len(slices.Collect(snap.AllocsByJob(nil, job.Namespace, job.ID)))
				if (left == 0) != tt.gone {
					t.Errorf("%d evaluations and allocations remain", left)
				}
			})
		})
	}
}

// TestJobGC_Registered registers a job again while its evaluations are deleted.
func TestJobGC_Registered(t *testing.T) {
	test(t, func(w *world) {
		job := w.Job(t, nomad.JobTypeBatch, 1)
		w.Eval(t, job, complete)
		w.before = func(method string) {
			if method == "Eval.Reap" {
				w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) { j.ID = job.ID })
			}
		}
		w.run(nomad.CoreJobForceGC)
		if w.Snapshot().Job(nil, job.Namespace, job.ID) == nil {
			t.Error("a job was purged after it was registered again")
		}
	})
}

func TestNodeGC(t *testing.T) {
	down := func(n *nomad.Node) { n.Status, n.StatusUpdatedAt = nomad.NodeStatusDown, time.Now().Unix() }
	for name, tt := range map[string]struct {
		node  func(*nomad.Node)
		alloc string
		after time.Duration
		gone  bool
	}{
		"down":              {node: down, gone: true},
		"down, too young":   {node: down, after: 24*time.Hour - time.Second},
		"down, lost alloc":  {node: down, alloc: "lost", gone: true},
		"down, unknown yet": {node: down, alloc: "running"},
		"ready":             {node: func(*nomad.Node) {}},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				n := w.Node(t, tt.node)
				if tt.alloc != "" {
					w.Alloc(t, w.Job(t, nomad.JobTypeService, 1), n, client(tt.alloc))
				}
				if tt.after == 0 {
					tt.after = 24 * time.Hour
				}
				time.Sleep(tt.after)
				w.run(nomad.CoreJobNodeGC)
				if got := w.Snapshot().Node(nil, n.ID) == nil; got != tt.gone {
					t.Errorf("node gone: %v, want %v", got, tt.gone)
				}
			})
		})
	}
}

func TestDeploymentGC(t *testing.T) {
	for name, tt := range map[string]struct {
		status string
		alloc  string
		after  time.Duration
		gone   bool
	}{
		"successful":            {status: nomad.DeploymentStatusSuccessful, gone: true},
		"successful, too young": {status: nomad.DeploymentStatusSuccessful, after: time.Hour - time.Second},
		"running":               {status: nomad.DeploymentStatusRunning, after: 99 * time.Hour},
		"has allocations":       {status: nomad.DeploymentStatusFailed, alloc: "running"},
		"had allocations":       {status: nomad.DeploymentStatusFailed, alloc: "complete", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				job := w.Job(t, nomad.JobTypeService, 1)
				d := &nomad.Deployment{ID: nomad.NewID(), Namespace: job.Namespace, JobID: job.ID, Status: tt.status, ModifyTime: time.Now().UnixNano()}
				w.Must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: d})
				if tt.alloc != "" {
					w.Alloc(t, job, w.Node(t), client(tt.alloc), func(a *nomad.Allocation) { a.DeploymentID = d.ID })
				}
				if tt.after == 0 {
					tt.after = time.Hour
				}
				time.Sleep(tt.after)
				w.run(nomad.CoreJobDeploymentGC)
				if got := w.Snapshot().Deployment(nil, d.ID) == nil; got != tt.gone {
					t.Errorf("deployment gone: %v, want %v", got, tt.gone)
				}
			})
		})
	}
}

func TestRootKeyGC(t *testing.T) {
	test(t, func(w *world) {
		key := func(state rootkey.State) string {
			k := &rootkey.Key{KeyID: nomad.NewID(), State: state, CreateTime: time.Now().UnixNano()}
			w.Must(t, message.WrappedRootKeysUpsertRequestType, &message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: k})
			return k.KeyID
		}
		unused, used, active := key(rootkey.Inactive), key(rootkey.Inactive), key(rootkey.Active)
		w.Alloc(t, w.Job(t, nomad.JobTypeService, 1), w.Node(t), client("running"), func(a *nomad.Allocation) {
			a.SignedIdentities, a.SigningKeyID = map[string]string{"t": "x"}, used
		})
		w.run(nomad.CoreJobForceGC)
		if w.Snapshot().RootKey(nil, unused) == nil {
			t.Fatal("force-gc deleted a key too early")
		}
		ofNode := key(rootkey.Inactive) // used only by the identity of a node, which is down
		w.Must(t, message.NodeUpdateStatusRequestType,
			&message.NodeUpdateStatusRequest{NodeID: w.Node(t).ID, Status: nomad.NodeStatusDown, IdentitySigningKeyID: ofNode})
		time.Sleep(721 * time.Hour)
		for range 3 { // publish the next key, activate it, collect
			w.run(nomad.CoreJobRootKeyRotateOrGC)
		}
		snap := w.Snapshot()
		if snap.RootKey(nil, unused) != nil || snap.RootKey(nil, used) == nil || snap.RootKey(nil, active) != nil {
			t.Errorf("remaining keys: unused %v, used %v, active once %v; want the second",
				snap.RootKey(nil, unused) != nil, snap.RootKey(nil, used) != nil, snap.RootKey(nil, active) != nil)
		}
		if k := snap.ActiveRootKey(nil); k == nil || k.KeyID == active {
			t.Errorf("the active key is %v", k)
		}
		if snap.RootKey(nil, ofNode) == nil {
			t.Error("a key of a node's identity was collected")
		}
	})
}

// A key signs for the rotation period. The next one is published half a period before.
func TestRootKeyRotation(t *testing.T) {
	test(t, func(w *world) {
		first := &rootkey.Key{KeyID: nomad.NewID(), State: rootkey.Active, CreateTime: time.Now().UnixNano()}
		if err := w.key(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var events []string
		last := map[string]rootkey.State{}
		for time.Since(begun) < 1800*time.Hour {
			w.run(nomad.CoreJobRootKeyRotateOrGC)
			now := map[string]rootkey.State{}
			for k := range w.Snapshot().RootKeys(nil) {
				if now[k.KeyID] = k.State; last[k.KeyID] != k.State {
					events = append(events, fmt.Sprintf("%dh %s", int(time.Since(begun).Hours()), k.State))
				}
			}
			for id := range last {
				if now[id] == "" {
					events = append(events, fmt.Sprintf("%dh gone", int(time.Since(begun).Hours())))
				}
			}
			last = now
			time.Sleep(time.Hour)
		}
		slices.Sort(events)
		want := []string{"0h active", "360h prepublished", "720h active", "720h inactive"}
		for _, event := range want {
			if !slices.Contains(events, event) {
				t.Errorf("%q did not happen: %q", event, events)
			}
		}
	})
}

// A full rotation ends if no variable has to be re-encrypted.
func TestRekey(t *testing.T) {
	test(t, func(w *world) {
		k := &rootkey.Key{KeyID: nomad.NewID(), State: rootkey.Rekeying, CreateTime: time.Now().UnixNano()}
		if err := w.key(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		w.run(nomad.CoreJobVariablesRekey)
		if got := w.Snapshot().RootKey(nil, k.KeyID).State; got != rootkey.Inactive {
			t.Errorf("the key is %s", got)
		}
	})
}

// Variables are re-encrypted at a bounded rate. The next evaluation continues the work; only then
// is the key unused.
func TestRekey_Continues(t *testing.T) {
	test(t, func(w *world) {
		k := &rootkey.Key{KeyID: nomad.NewID(), State: rootkey.Rekeying}
		if err := w.key(w.t.Context(), k); err != nil {
			t.Fatal(err)
		}
		const count = 3200
		for i := range count {
			v := &variable.Encrypted{Metadata: variable.Metadata{Namespace: "default", Path: fmt.Sprint(i)},
				Ciphertext: variable.Ciphertext{Data: []byte("old"), KeyID: k.KeyID}}
			if _, err := w.Apply(w.t.Context(), message.VarApplyStateRequestType,
				&message.VarApplyStateRequest{Op: variable.OpSet, Var: v}); err != nil {
				t.Fatal(err)
			}
		}
		begun, rounds := time.Now(), 0
		w.again = []*nomad.Evaluation{nomad.NewCoreEval(nomad.CoreJobVariablesRekey, 1, begun)}
		for ; len(w.again) == 1; rounds++ {
			if got := w.Snapshot().RootKey(nil, k.KeyID).State; got != rootkey.Rekeying {
				t.Errorf("the key is %s before all variables are done", got)
			}
			if w.Snapshot().RootKeyInUse(k.KeyID) == false {
				t.Error("the key is not in use")
			}
			eval := w.again[0]
			w.again = nil
			if err := w.c.Process(w.t.Context(), eval); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(begun)
		if rounds != 2 || took < 32*time.Second || took > 33*time.Second {
			t.Errorf("%d variables took %v in %d evaluations, want 32 s in 2", count, took, rounds)
		}
		if got := w.Snapshot().RootKey(nil, k.KeyID).State; got != rootkey.Inactive || w.Snapshot().RootKeyInUse(k.KeyID) {
			t.Errorf("in the end the key is %s", got)
		}
	})
}

// The secrets of volumes are re-encrypted too. Until then the key is in use, also if a write in flight used it after the start.
func TestRekey_Volumes(t *testing.T) {
	test(t, func(w *world) {
		k := &rootkey.Key{KeyID: nomad.NewID(), State: rootkey.Rekeying}
		if err := w.key(w.t.Context(), k); err != nil {
			t.Fatal(err)
		}
		sealed := func(id string) {
			w.Must(t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{
				{Namespace: "default", ID: id, PluginID: "ebs", Sealed: &csi.Sealed{KeyID: k.KeyID}}}})
		}
		sealed("a")
		sealed("b")
		w.before = func(method string) {
			if method == "CSIVolume.Reseal" && w.Snapshot().CSIVolume(nil, "default", "late") == nil {
				sealed("late")
			}
		}
		w.again = []*nomad.Evaluation{nomad.NewCoreEval(nomad.CoreJobVariablesRekey, 1, time.Now())}
		for rounds := 1; len(w.again) == 1; rounds++ {
			if !w.Snapshot().RootKeyInUse(k.KeyID) || rounds > 2 {
				t.Fatalf("in evaluation %d the key is in use: %t", rounds, w.Snapshot().RootKeyInUse(k.KeyID))
			}
			eval := w.again[0]
			w.again = nil
			if err := w.c.Process(w.t.Context(), eval); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.Snapshot().RootKey(nil, k.KeyID).State; got != rootkey.Inactive || w.Snapshot().RootKeyInUse(k.KeyID) {
			t.Errorf("in the end the key is %s", got)
		}
		for v := range w.Snapshot().CSIVolumes(nil) {
			if v.Sealed == nil || v.Sealed.KeyID != "new" {
				t.Errorf("volume %s is sealed with %v", v.ID, v.Sealed)
			}
		}
	})
}

func TestForceGC(t *testing.T) {
	test(t, func(w *world) {
		job := w.Job(t, nomad.JobTypeBatch, 1)
		down := w.Node(t, func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		e := w.Eval(t, job, complete)
		w.Alloc(t, job, down, of(e), client("complete"))
		other := w.Job(t, nomad.JobTypeService, 1)
		busy := w.Node(t)
		running := w.Alloc(t, other, busy, client("running"))
		w.run(nomad.CoreJobForceGC)
		snap := w.Snapshot()
		if snap.Job(nil, job.Namespace, job.ID) != nil || snap.Eval(nil, e.ID) != nil || snap.Node(nil, down.ID) != nil {
			t.Error("a terminal object was kept")
		}
		if snap.Alloc(nil, running.ID) == nil || snap.Node(nil, busy.ID) == nil || snap.Job(nil, other.Namespace, other.ID) == nil {
			t.Error("a live object was collected")
		}
	})
}

func TestBoundedRequests(t *testing.T) {
	test(t, func(w *world) {
		const n = nomad.MaxUUIDsPerWriteRequest + 10
		job := w.Job(t, nomad.JobTypeService, 1)
		all := &message.EvalUpdateRequest{}
		for range n {
			all.Evals = append(all.Evals, &nomad.Evaluation{
				ID: nomad.NewID(), Namespace: job.Namespace, JobID: job.ID, Type: job.Type, Status: nomad.EvalStatusComplete})
		}
		w.Must(t, message.EvalUpdateRequestType, all)
		w.run(nomad.CoreJobEvalGC)
		if !slices.Equal(w.sizes, []int{nomad.MaxUUIDsPerWriteRequest, 10}) {
			t.Errorf("requests of %v IDs, want %d and 10", w.sizes, nomad.MaxUUIDsPerWriteRequest)
		}
		if left := len(slices.Collect(w.Snapshot().Evals(nil))); left != 0 {
			t.Errorf("%d evaluations remain", left)
		}
	})
}

func TestUnknownCoreJob(t *testing.T) {
	c := gc.New(gc.Config{})
	if err := c.Process(t.Context(), nomad.NewCoreEval("tidy-up", 1, time.Now())); err == nil {
		t.Error("an unknown core job was accepted")
	}
}

func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[string]int{}
		timer := gc.NewTimer(gc.Intervals{Node: 15 * time.Minute}, func() uint64 { return 77 }, func(e *nomad.Evaluation) {
			if e.JobID != e.CoreJob()+":77" || e.Type != nomad.JobTypeCore {
				t.Errorf("evaluation is %+v", e)
			}
			made[e.CoreJob()]++
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); timer.Run(ctx) }()
		time.Sleep(30*time.Minute + time.Second)
		cancel()
		<-done
		want := map[string]int{nomad.CoreJobEvalGC: 6, nomad.CoreJobJobGC: 6, nomad.CoreJobDeploymentGC: 6,
			nomad.CoreJobNodeGC: 2, nomad.CoreJobRootKeyRotateOrGC: 3}
		for name, n := range want {
			if made[name] != n {
				t.Errorf("%d evaluations of %s in half an hour, want %d", made[name], name, n)
			}
		}
	})
}
