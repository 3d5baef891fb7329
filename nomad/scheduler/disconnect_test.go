package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// disconnected returns a world with one running allocation on n1, which is disconnected, and a free node n2.
func disconnected(t *testing.T, d nomad.DisconnectStrategy, edit ...func(*nomad.Job)) (*world, *nomad.Allocation) {
	t.Helper()
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, append([]func(*nomad.Job){
		policy(nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "constant"}),
		func(j *nomad.Job) { j.TaskGroups[0].Disconnect = &d },
	}, edit...)...))
	w.process()
	old := w.live()[0]
	w.report(nomad.AllocClientStatusRunning, nil, old)
	w.addNode("n2")
	w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDisconnected })
	w.process()
	return w, w.allocs[old.ID]
}

// followUp processes the latest evaluation with a trigger at its time.
func followUp(t *testing.T, w *world, trigger string) {
	t.Helper()
	i := slices.IndexFunc(w.created, func(e *nomad.Evaluation) bool { return e.TriggeredBy == trigger })
	if i < 0 {
		t.Fatalf("no evaluation with the trigger %s", trigger)
	}
	if due := w.created[i].WaitUntil; due.After(w.now) {
		w.now = due
	}
	w.process(func(e *nomad.Evaluation) { e.ID = w.created[i].ID })
}

// back reports an allocation as running on a node that is ready again.
func back(w *world, a *nomad.Allocation, status string) {
	w.addNode("n1")
	w.report(status, nil, a)
	w.process(func(e *nomad.Evaluation) { e.TriggeredBy = nomad.EvalTriggerReconnect })
}

func TestDisconnect_Unknown(t *testing.T) {
	w, old := disconnected(t, nomad.DisconnectStrategy{LostAfter: time.Hour})
	if old.ClientStatus != nomad.AllocClientStatusUnknown || old.ClientDescription != nomad.AllocUnknownDescription ||
		old.DesiredStatus != nomad.AllocDesiredStatusRun || !old.LastUnknown().Equal(w.now) {
		t.Fatalf("allocation = %+v", old)
	}
	triggers := map[string]time.Duration{}
	for _, e := range w.created {
		triggers[e.TriggeredBy] = e.WaitUntil.Sub(w.now)
	}
	if len(w.created) != 2 || triggers[nomad.EvalTriggerMaxDisconnectTimeout] != time.Hour ||
		triggers[nomad.EvalTriggerAllocReschedule] != 30*time.Second {
		t.Fatalf("follow-ups = %v", triggers)
	}
	w.process()
	if len(w.created) != 2 || len(w.live()) != 1 {
		t.Fatalf("a second evaluation: %d follow-ups, %d live", len(w.created), len(w.live()))
	}
	followUp(t, w, nomad.EvalTriggerAllocReschedule)
	live := w.live()
	if len(live) != 2 {
		t.Fatalf("%d live after the replacement, want 2", len(live))
	}
	w.process()
	if n := len(w.live()); n != 2 {
		t.Fatalf("%d live after another evaluation, want 2", n)
	}

	followUp(t, w, nomad.EvalTriggerMaxDisconnectTimeout)
	if got := w.allocs[old.ID]; got.ClientStatus != nomad.AllocClientStatusLost || got.DesiredStatus != nomad.AllocDesiredStatusStop {
		t.Errorf("after lost_after: %s, %s", got.DesiredStatus, got.ClientStatus)
	}
	if live := w.live(); len(live) != 1 || live[0].NodeID != "n2" {
		t.Errorf("live = %+v", live)
	}
}

func TestReconnect_AfterReplacement(t *testing.T) {
	for strategy, want := range map[string]string{nomad.ReconcileKeepOriginal: "n1", nomad.ReconcileKeepReplacement: "n2"} {
		t.Run(strategy, func(t *testing.T) {
			w, old := disconnected(t, nomad.DisconnectStrategy{LostAfter: time.Hour, Reconcile: strategy})
			followUp(t, w, nomad.EvalTriggerAllocReschedule)
			for _, a := range w.live() {
				if a.ID != old.ID {
					w.report(nomad.AllocClientStatusRunning, nil, a)
				}
			}
			back(w, old, nomad.AllocClientStatusRunning)
			live := w.live()
			if len(live) != 1 || live[0].NodeID != want {
				t.Fatalf("live = %+v, want one on %s", live, want)
			}
			plans := len(w.plans)
			w.process()
			for _, p := range w.plans[plans:] {
				if len(p.NodeUpdate)+len(p.NodeAllocation) != 0 {
					t.Errorf("a second evaluation changes something: %+v", p)
				}
			}
		})
	}
}

func TestReconnect_BeforeReplacement(t *testing.T) {
	w, old := disconnected(t, nomad.DisconnectStrategy{LostAfter: time.Hour})
	back(w, old, nomad.AllocClientStatusRunning)
	live := w.live()
	if len(live) != 1 || live[0].ID != old.ID || live[0].WasUnknown() || live[0].FollowupEvalID != "" {
		t.Fatalf("live = %+v", live)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.process()
	if live := w.live(); len(live) != 1 || live[0].ID != old.ID {
		t.Errorf("live later = %+v", live)
	}
}

func TestDisconnect_NoReplacement(t *testing.T) {
	no := false
	w, old := disconnected(t, nomad.DisconnectStrategy{LostAfter: time.Hour, Replace: &no})
	if len(w.created) != 1 || w.created[0].TriggeredBy != nomad.EvalTriggerMaxDisconnectTimeout || old.FollowupEvalID != w.created[0].ID {
		t.Fatalf("follow-ups = %+v", w.created)
	}
	w.now = w.now.Add(30 * time.Minute)
	w.process()
	if n := len(w.live()); n != 1 {
		t.Fatalf("%d live, want 1", n)
	}
	followUp(t, w, nomad.EvalTriggerMaxDisconnectTimeout)
	live := w.live()
	if len(live) != 1 || live[0].NodeID != "n2" || w.allocs[old.ID].ClientStatus != nomad.AllocClientStatusLost {
		t.Errorf("live = %+v, the old one is %s", live, w.allocs[old.ID].ClientStatus)
	}
}

func TestReconnect_Failed(t *testing.T) {
	w, old := disconnected(t, nomad.DisconnectStrategy{LostAfter: time.Hour})
	back(w, old, nomad.AllocClientStatusFailed)
	if got := w.allocs[old.ID]; got.DesiredStatus != nomad.AllocDesiredStatusStop {
		t.Errorf("the failed allocation is %s", got.DesiredStatus)
	}
	if live := w.live(); len(live) != 1 || live[0].ID == old.ID {
		t.Errorf("live = %+v", live)
	}
}

// With stop_on_client_after nothing is placed until the client has certainly stopped the allocation.
func TestStopOnClientAfter(t *testing.T) {
	after := time.Minute
	w, old := disconnected(t, nomad.DisconnectStrategy{StopOnClientAfter: &after})
	lost := *w.allocs[old.ID]
	if lost.ClientStatus != nomad.AllocClientStatusLost || len(w.live()) != 0 {
		t.Fatalf("allocation is %s, %d live", lost.ClientStatus, len(w.live()))
	}
	if len(w.created) != 1 || w.created[0].TriggeredBy != nomad.EvalTriggerRetryFailedAlloc ||
		w.created[0].WaitUntil.Sub(w.now) != after+5*time.Second {
		t.Fatalf("follow-ups = %+v", w.created)
	}
	lost.ModifyTime = w.now.UnixNano() // as the state sets it
	w.set(&lost)
	w.process()
	if n := len(w.live()); n != 0 {
		t.Fatalf("%d live before the client has stopped it", n)
	}
	followUp(t, w, nomad.EvalTriggerRetryFailedAlloc)
	if live := w.live(); len(live) != 1 || live[0].NodeID != "n2" {
		t.Errorf("live = %+v", live)
	}
}

// A system allocation is unknown until it is lost, and not placed elsewhere.
func TestDisconnect_System(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeSystem, 1,
		func(j *nomad.Job) { j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: time.Hour} }))
	w.process()
	old := w.live()[0]
	w.report(nomad.AllocClientStatusRunning, nil, old)
	w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDisconnected })
	w.process()
	if got := w.allocs[old.ID]; got.ClientStatus != nomad.AllocClientStatusUnknown || len(w.created) != 0 {
		t.Fatalf("allocation is %s, %d follow-ups", got.ClientStatus, len(w.created))
	}
	w.process()
	w.now = w.now.Add(2 * time.Hour)
	w.process()
	if got := w.allocs[old.ID]; got.ClientStatus != nomad.AllocClientStatusLost {
		t.Errorf("after lost_after: %s", got.ClientStatus)
	}
}
