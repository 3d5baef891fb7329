package broker_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

func blockedEval(job string, edit ...func(*nomad.Evaluation)) *nomad.Evaluation {
	e := newEval(job)
	e.Status = nomad.EvalStatusBlocked
	e.CreateIndex, e.SnapshotIndex = 100, 100
	for _, f := range edit {
		f(e)
	}
	return e
}

func classes(eligible map[string]bool) func(*nomad.Evaluation) {
	return func(e *nomad.Evaluation) { e.ClassEligibility = eligible }
}

func escaped(e *nomad.Evaluation) { e.EscapedComputedClass = true }

func onNode(id string) func(*nomad.Evaluation) {
	return func(e *nomad.Evaluation) { e.Type, e.NodeID = nomad.JobTypeSystem, id }
}

func enabledBlocked() (*broker.Broker, *broker.Blocked) {
	b := enabled()
	bl := broker.NewBlocked(b)
	bl.Enable()
	return b, bl
}

var anyType = []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch}

// unblocking lists events that may come before or after an evaluation is blocked.
var unblocking = []struct {
	name    string
	eval    func(*nomad.Evaluation)
	unblock func(bl *broker.Blocked, index uint64)
	want    bool
}{
	{"eligible class", classes(map[string]bool{"c1": true}), unblockC1, true},
	{"ineligible class", classes(map[string]bool{"c1": false}), unblockC1, false},
	{"new class", classes(map[string]bool{"c2": false}), unblockC1, true},
	{"escaped", escaped, unblockC1, true},
	{"escaped, ineligible class", func(e *nomad.Evaluation) { escaped(e); classes(map[string]bool{"c1": false})(e) }, unblockC1, true},
	{"system, its node", onNode("n1"), unblockN1, true},
	{"system, another node", onNode("n2"), unblockN1, false},
	{"system, a class", onNode("n1"), unblockC1, false},
	{"service, a node", escaped, unblockN1, false},
	{"its quota", waitsFor("q1", true), unblockQ1, true},
	{"another quota", waitsFor("q2", true), unblockQ1, false},
	{"a quota, without waiting for one", escaped, unblockQ1, false},
	{"quota only, a class", waitsFor("q1", true), unblockC1, false},
	{"quota only, escaped, a class", func(e *nomad.Evaluation) { escaped(e); waitsFor("q1", true)(e) }, unblockC1, false},
	{"quota and more, a class", waitsFor("q1", false), unblockC1, true},
	{"quota and more, its quota", waitsFor("q1", false), unblockQ1, true},
	{"system, its quota", func(e *nomad.Evaluation) { onNode("n1")(e); waitsFor("q1", true)(e) }, unblockQ1, true},
	{"system, quota only, its node", func(e *nomad.Evaluation) { onNode("n1")(e); waitsFor("q1", true)(e) }, unblockN1, false},
	{"system, quota and more, its node", func(e *nomad.Evaluation) { onNode("n1")(e); waitsFor("q1", false)(e) }, unblockN1, true},
	{"a volume", needsVolume("v1"), unblockV1, true},
	{"another volume", needsVolume("v2"), unblockV1, false},
	{"no volume, a volume", escaped, unblockV1, false},
	{"a volume, an ineligible class", needsVolume("v1"), unblockC1, false},
	{"system, a volume", func(e *nomad.Evaluation) { onNode("n1")(e); needsVolume("v1")(e) }, unblockV1, true},
	{"quota only, a volume", func(e *nomad.Evaluation) { waitsFor("q1", true)(e); needsVolume("v1")(e) }, unblockV1, false},
	{"quota and more, a volume", func(e *nomad.Evaluation) { waitsFor("q1", false)(e); needsVolume("v1")(e) }, unblockV1, true},
	{"too many plans, a class", func(e *nomad.Evaluation) { escaped(e); e.QuotaLimitReached = "q1" }, unblockC1, true},
}

// needsVolume makes an evaluation wait for a CSI volume, and not for nodes of the class c1.
func needsVolume(volume string) func(*nomad.Evaluation) {
	return func(e *nomad.Evaluation) {
		e.MissingNonNodeResources = []string{volume}
		e.ClassEligibility = map[string]bool{"c1": false}
	}
}

// waitsFor makes an evaluation wait for a quota; only tells it apart from one that waits for nodes
// too.
func waitsFor(quota string, only bool) func(*nomad.Evaluation) {
	return func(e *nomad.Evaluation) {
		e.QuotaLimitReached = quota
		e.FailedTGAllocs = map[string]*nomad.AllocMetric{"g": {QuotaExhausted: []string{"cpu exhausted"}}}
		if !only {
			e.FailedTGAllocs["h"] = &nomad.AllocMetric{NodesExhausted: 1}
		}
	}
}

func unblockQ1(bl *broker.Blocked, index uint64) { bl.UnblockQuota("q1", index) }
func unblockV1(bl *broker.Blocked, index uint64) {
	broker.NewObserver(nil, bl, nil, nil).VolumesFreed(index, []string{"v0", "v1"})
}
func unblockC1(bl *broker.Blocked, index uint64) { bl.Unblock("c1", index) }
func unblockN1(bl *broker.Blocked, index uint64) { bl.UnblockNode("n1", index) }

func TestUnblock(t *testing.T) {
	for _, tt := range unblocking {
		t.Run(tt.name, func(t *testing.T) {
			b, bl := enabledBlocked()
			e := blockedEval("a", tt.eval)
			bl.Block(e)
			wantNone(t, b, anyType)
			tt.unblock(bl, 101)
			if !tt.want {
				wantNone(t, b, anyType)
				if s := bl.Stats(); s.Blocked != 1 {
					t.Errorf("Stats() = %+v, want it blocked", s)
				}
				return
			}
			if got, _ := dequeue(t, b, anyType); got != e {
				t.Errorf("dequeued %v", got)
			}
			if s := bl.Stats(); s.Blocked != 0 {
				t.Errorf("Stats() = %+v, want nothing blocked", s)
			}
		})
	}
}

// TestMissedUnblock frees capacity after the scheduler's snapshot and before the evaluation is
// blocked.
func TestMissedUnblock(t *testing.T) {
	for _, tt := range unblocking {
		t.Run(tt.name, func(t *testing.T) {
			for index, seen := range map[uint64]bool{99: true, 100: true, 101: false} {
				b, bl := enabledBlocked()
				tt.unblock(bl, index)
				bl.Block(blockedEval("a", tt.eval))
				_, _, err := tryDequeue(b, anyType)
				if want := tt.want && !seen; (err == nil) != want {
					t.Errorf("unblock at %d, snapshot at 100: enqueued is %v, want %v", index, err == nil, want)
				}
			}
		})
	}
}

func TestMissedUnblock_Dropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bl := enabledBlocked()
		bl.Unblock("c1", 200)
		time.Sleep(time.Hour)
		bl.Unblock("c2", 300) // drops the record of c1
		no := classes(map[string]bool{"c1": true, "c2": false})
		bl.Block(blockedEval("a", no, func(e *nomad.Evaluation) { e.SnapshotIndex = 250 }))
		wantNone(t, b, service)
		bl.Block(blockedEval("b", no, func(e *nomad.Evaluation) { e.SnapshotIndex = 150 }))
		if e, _ := dequeue(t, b, service); e.JobID != "b" {
			t.Errorf("dequeued job %s, want b", e.JobID)
		}
	})
}

func TestBlocked_OnePerJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bl := enabledBlocked()
		canceled := runReaper(t, b, bl)
		newer := blockedEval("a", escaped)
		older := blockedEval("a", escaped, func(e *nomad.Evaluation) { e.CreateIndex, e.SnapshotIndex = 50, 99 })
		newest := blockedEval("a", escaped, func(e *nomad.Evaluation) { e.CreateIndex = 150 })
		for _, e := range []*nomad.Evaluation{newer, older, newest} {
			bl.Block(e)
		}
		bl.Block(blockedEval("a", onNode("n1"))) // one for each node is allowed
		bl.Block(blockedEval("a", onNode("n2")))
		synctest.Wait()
		got := <-canceled
		if len(got) == 1 {
			got = append(got, <-canceled...)
		}
		ids := map[string]string{}
		for _, e := range got {
			ids[e.ID] = e.Status
			if want := `existing blocked evaluation exists for job "a"`; e.StatusDescription != want {
				t.Errorf("description is %q, want %q", e.StatusDescription, want)
			}
		}
		if ids[newer.ID] != nomad.EvalStatusCancelled || ids[older.ID] != nomad.EvalStatusCancelled || len(ids) != 2 {
			t.Errorf("canceled %v, want the two older ones", ids)
		}
		if newer.Status != nomad.EvalStatusBlocked {
			t.Error("the evaluation in state was modified")
		}
		bl.Unblock("c1", 200)
		if e, _ := dequeue(t, b, service); e != newest {
			t.Errorf("unblocked %v, want the newest", e)
		}
		if s := bl.Stats(); s.Blocked != 2 || s.Nodes != 2 {
			t.Errorf("Stats() = %+v, want 2 of nodes", s)
		}
	})
}

// Of two blocked evaluations of a job, the one that considered the later state remains.
func TestBlocked_LatestRemains(t *testing.T) {
	for _, tt := range []struct {
		name             string
		create, snapshot uint64 // of the first; the second has 100 and 100
		wantFirst        bool
	}{
		{"older", 90, 80, false},
		{"created later", 110, 80, true},
		{"with a later snapshot", 90, 110, true},
		{"equal", 100, 100, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, bl := enabledBlocked()
			first := blockedEval("a", escaped, func(e *nomad.Evaluation) { e.CreateIndex, e.SnapshotIndex = tt.create, tt.snapshot })
			second := blockedEval("a", escaped)
			bl.Block(first)
			bl.Block(second)
			if got := bl.Evals(); len(got) != 1 || (got[0] == first) != tt.wantFirst {
				t.Errorf("blocked evaluations are %v, want the first: %t", got, tt.wantFirst)
			}
		})
	}
}

func TestBlocked_Reblock(t *testing.T) {
	b, bl := enabledBlocked()
	e := blockedEval("a", escaped)
	bl.Block(e)
	bl.Unblock("c1", 101)
	_, token := dequeue(t, b, service)
	again := codec.Copy(e)
	again.SnapshotIndex = 101
	bl.Block(again) // as stored in state
	bl.Reblock(again, token)
	bl.Unblock("c1", 102) // before the worker is done
	wantNone(t, b, service)
	must(t, b.Ack(e.ID, token))
	dequeue(t, b, service)
	if s := bl.Stats(); s.Blocked != 0 {
		t.Errorf("Stats() = %+v, want nothing blocked", s)
	}
}

func TestUnblockFailed(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		synctest.Test(t, func(t *testing.T) {
			b, bl := enabledBlocked()
			go bl.Run(t.Context())
			failed := blockedEval("a", func(e *nomad.Evaluation) { e.Type, e.TriggeredBy = typ, nomad.EvalTriggerMaxPlans })
			bl.Block(failed)
			bl.Block(blockedEval("b"))
			wantNone(t, b, anyType)
			time.Sleep(time.Minute)
			synctest.Wait()
			if e, _ := dequeue(t, b, anyType); e != failed {
				t.Errorf("dequeued %v", e)
			}
			wantNone(t, b, anyType)
		})
	}
}

func TestUntrack(t *testing.T) {
	b, bl := enabledBlocked()
	bl.Block(blockedEval("a", escaped))
	bl.Block(blockedEval("a", onNode("n1")))
	bl.Block(blockedEval("b", escaped))
	bl.Untrack(nomad.DefaultNamespace, "a")
	bl.Unblock("c1", 200)
	bl.UnblockNode("n1", 200)
	if e, _ := dequeue(t, b, anyType); e.JobID != "b" {
		t.Errorf("dequeued job %s, want b", e.JobID)
	}
	wantNone(t, b, anyType)
}

func TestBlockedDisabled(t *testing.T) {
	b, bl := enabledBlocked()
	bl.Block(blockedEval("a", escaped))
	bl.Disable()
	bl.Block(blockedEval("b", escaped))
	bl.Enable()
	bl.Unblock("c1", 200)
	wantNone(t, b, service)
}

func TestObserver(t *testing.T) {
	b, bl := enabledBlocked()
	o := broker.NewObserver(b, bl, func(node string) (string, bool) { return "class of " + node, node == "n1" },
		func(nomad.NamespacedID) bool { return false })
	work, done := newEval("a"), newEval("b")
	done.Status = nomad.EvalStatusComplete
	c1, c2, system := blockedEval("c", classes(map[string]bool{"class of n1": true})),
		blockedEval("d", classes(map[string]bool{"class of n1": false})), blockedEval("e", onNode("n1"))
	o.EvalsUpserted(90, []*nomad.Evaluation{work, done, c1, c2, system})
	if e, _ := dequeue(t, b, anyType); e != work {
		t.Errorf("dequeued %v, want the pending one", e)
	}
	wantNone(t, b, anyType)

	o.AllocsStopped(101, []*nomad.Allocation{{NodeID: "n9"}, {NodeID: "n1"}, {NodeID: "n1"}})
	got := map[string]bool{}
	for range 2 {
		e, token := dequeue(t, b, anyType)
		got[e.JobID] = true
		must(t, b.Ack(e.ID, token))
	}
	if !got["c"] || !got["e"] {
		t.Errorf("stopped allocations unblocked %v, want c and e", got)
	}
	wantNone(t, b, anyType)

	node := &nomad.Node{ID: "n2", ComputedClass: "new", Status: nomad.NodeStatusDown}
	o.NodeChanged(110, node)
	wantNone(t, b, anyType)
	up := *node
	up.Status, up.SchedulingEligibility = nomad.NodeStatusReady, nomad.NodeSchedulingEligible
	o.NodeChanged(111, &up)
	if e, _ := dequeue(t, b, anyType); e != c2 {
		t.Errorf("a new node unblocked %v, want d", e)
	}
}

func TestObserver_Deleted(t *testing.T) {
	for name, notify := range map[string]func(o *broker.Observer, e *nomad.Evaluation){
		"placed": func(o *broker.Observer, _ *nomad.Evaluation) {
			done := newEval("a")
			done.Status = nomad.EvalStatusComplete
			o.EvalsUpserted(2, []*nomad.Evaluation{done})
		},
		"canceled": func(o *broker.Observer, e *nomad.Evaluation) {
			c := codec.Copy(e)
			c.Status = nomad.EvalStatusCancelled
			o.EvalsUpserted(2, []*nomad.Evaluation{c})
		},
		"job removed": func(o *broker.Observer, e *nomad.Evaluation) { o.JobRemoved(e.Namespace, e.JobID) },
	} {
		t.Run(name, func(t *testing.T) {
			b, bl := enabledBlocked()
			o := broker.NewObserver(b, bl, func(string) (string, bool) { return "", false }, func(nomad.NamespacedID) bool { return false })
			e := blockedEval("a", escaped)
			o.EvalsUpserted(1, []*nomad.Evaluation{e})
			if s := bl.Stats(); s.Blocked != 1 || s.Escaped != 1 {
				t.Fatalf("Stats() = %+v, want it blocked", s)
			}
			notify(o, e)
			if s := bl.Stats(); s.Blocked != 0 {
				t.Errorf("Stats() = %+v, want none", s)
			}
		})
	}
}

// TestRestore enables the broker on a state with pending evaluations and a blocked one that the
// previous leader may have unblocked.
func TestRestore(t *testing.T) {
	b, bl := enabledBlocked()
	o := broker.NewObserver(b, bl, func(string) (string, bool) { return "", false }, func(nomad.NamespacedID) bool { return false })
	pending, blocked, done := newEval("a"), blockedEval("b", classes(map[string]bool{"c1": true})), newEval("c")
	done.Status = nomad.EvalStatusComplete
	o.Restore(200, slices.Values([]*nomad.Evaluation{pending, blocked, done}))
	got := map[string]bool{}
	for range 2 {
		e, token := dequeue(t, b, service)
		got[e.ID] = true
		must(t, b.Ack(e.ID, token))
	}
	if !got[pending.ID] || !got[blocked.ID] {
		t.Errorf("dequeued %v, want the pending and the blocked one", got)
	}
	again := codec.Copy(blocked)
	again.SnapshotIndex = 200
	bl.Block(again)
	wantNone(t, b, service)
	if s := bl.Stats(); s.Blocked != 1 {
		t.Errorf("Stats() = %+v, want it blocked after the retry", s)
	}
}
