package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

func policy(p nomad.ReschedulePolicy) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].ReschedulePolicy = &p }
}

func TestReschedule_Delayed(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 2,
		policy(nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "constant"})))
	w.process()
	failed := w.live()[0]
	w.report(nomad.AllocClientStatusFailed, nil, failed)
	w.process()
	if len(w.created) != 1 {
		t.Fatalf("created %d evaluations, want a follow-up", len(w.created))
	}
	follow := w.created[0]
	if got := follow.WaitUntil.Sub(w.now); got != 30*time.Second || follow.TriggeredBy != nomad.EvalTriggerAllocReschedule ||
		follow.Status != nomad.EvalStatusPending {
		t.Errorf("follow-up = %+v, waits %v", follow, got)
	}
	if got := w.allocs[failed.ID]; got.FollowupEvalID != follow.ID || got.Job == nil || got.DesiredStatus != nomad.AllocDesiredStatusRun {
		t.Errorf("failed allocation = %+v", got)
	}
	w.process()
	if len(w.created) != 1 || len(w.live()) != 1 {
		t.Errorf("an evaluation before WaitUntil: %d follow-ups, %d live", len(w.created), len(w.live()))
	}

	w.process(func(e *nomad.Evaluation) { e.ID = follow.ID })
	live := w.live()
	wantNames(t, live, "j.g[0]", "j.g[1]")
	a := live[0]
	if a.PreviousAllocation != failed.ID || a.RescheduleTracker == nil || len(a.RescheduleTracker.Events) != 1 {
		t.Fatalf("replacement = %+v", a)
	}
	ev := a.RescheduleTracker.Events[0]
	if ev.PrevAllocID != failed.ID || ev.PrevNodeID != "n1" || ev.Delay != 30*time.Second || ev.RescheduleTime != w.now.UnixNano() {
		t.Errorf("event = %+v", ev)
	}
	if got := w.allocs[failed.ID].DesiredStatus; got != nomad.AllocDesiredStatusStop {
		t.Errorf("replaced allocation is desired to %q", got)
	}
}

func TestReschedule_SharedFollowup(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 3, policy(nomad.ReschedulePolicy{Unlimited: true, Delay: time.Minute})))
	w.process()
	for i, a := range w.live() {
		w.report(nomad.AllocClientStatusFailed, nil, a)
		w.now = w.now.Add(time.Duration(i+1) * 3 * time.Second) // fail at 0, 3 and 9 s
	}
	w.process()
	if len(w.created) != 2 {
		t.Fatalf("%d follow-ups, want one for 0 and 3 s and one for 9 s", len(w.created))
	}
}

func TestReschedule_Delays(t *testing.T) {
	min := time.Minute
	cases := []struct {
		name   string
		policy nomad.ReschedulePolicy
		want   []time.Duration // of successive failures; -1: none
	}{
		{"constant", nomad.ReschedulePolicy{Unlimited: true, Delay: min, DelayFunction: "constant"}, []time.Duration{min, min, min}},
		{"exponential", nomad.ReschedulePolicy{Unlimited: true, Delay: min, DelayFunction: "exponential", MaxDelay: 5 * min},
			[]time.Duration{min, 2 * min, 4 * min, 5 * min, 5 * min}},
		{"fibonacci", nomad.ReschedulePolicy{Unlimited: true, Delay: min, DelayFunction: "fibonacci", MaxDelay: time.Hour},
			[]time.Duration{min, min, 2 * min, 3 * min, 5 * min, 8 * min}},
		{"attempts", nomad.ReschedulePolicy{Attempts: 2, Interval: time.Hour, Delay: min, DelayFunction: "constant"},
			[]time.Duration{min, min, -1}},
		{"a delay that is not below the interval", nomad.ReschedulePolicy{Attempts: 2, Interval: min, Delay: min, DelayFunction: "constant"},
			[]time.Duration{-1}},
		{"maximum reached", nomad.ReschedulePolicy{Unlimited: true, Delay: min, DelayFunction: "exponential", MaxDelay: 2 * min},
			[]time.Duration{min, 2 * min, 2 * min}},
		{"attempts after the interval", nomad.ReschedulePolicy{Attempts: 1, Interval: 65 * time.Second, Delay: min, DelayFunction: "constant"},
			[]time.Duration{min, min, min}},
		{"off", nomad.ReschedulePolicy{}, []time.Duration{-1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(nomad.JobTypeService, 1, policy(c.policy)))
			w.process()
			for i, want := range c.want {
				w.now = w.now.Add(70 * time.Second) // it runs for a while
				w.report(nomad.AllocClientStatusFailed, nil, w.live()[0])
				before := len(w.created)
				w.process()
				if want < 0 {
					if len(w.created) != before || len(w.live()) != 0 {
						t.Errorf("failure %d has a follow-up", i+1)
					}
					return
				}
				if len(w.created) != before+1 {
					t.Fatalf("failure %d: no follow-up", i+1)
				}
				follow := w.created[before]
				if got := follow.WaitUntil.Sub(w.now); got != want {
					t.Fatalf("failure %d: delay %v, want %v", i+1, got, want)
				}
				w.now = follow.WaitUntil
				w.process(func(e *nomad.Evaluation) { e.ID = follow.ID })
			}
		})
	}
}

func TestReschedule_DelayReset(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{
		Unlimited: true, Delay: time.Minute, DelayFunction: "exponential", MaxDelay: 2 * time.Minute})))
	w.process()
	for _, want := range []time.Duration{1, 2, 2} {
		w.report(nomad.AllocClientStatusFailed, nil, w.live()[0])
		w.process()
		follow := w.created[len(w.created)-1]
		if got := follow.WaitUntil.Sub(w.now); got != want*time.Minute {
			t.Fatalf("delay %v, want %v", got, want*time.Minute)
		}
		w.now = follow.WaitUntil
		w.process(func(e *nomad.Evaluation) { e.ID = follow.ID })
	}
	w.now = w.now.Add(time.Hour)
	w.report(nomad.AllocClientStatusFailed, nil, w.live()[0])
	w.process()
	if got := w.created[len(w.created)-1].WaitUntil.Sub(w.now); got != time.Minute {
		t.Errorf("delay after an hour's run = %v, want a minute", got)
	}
}

func TestReschedule_OtherNode(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2")
	w.register(job(nomad.JobTypeBatch, 1, policy(nomad.ReschedulePolicy{Attempts: 1, Interval: time.Hour})))
	w.process()
	failed := w.live()[0]
	w.report(nomad.AllocClientStatusFailed, nil, failed)
	w.process()
	if got := w.live(); len(got) != 1 || got[0].NodeID == failed.NodeID {
		t.Errorf("replacement on %v, want the other node than %s", got, failed.NodeID)
	}
}

func TestReschedule_Forced(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{})))
	w.process()
	failed := w.live()[0]
	w.report(nomad.AllocClientStatusFailed, nil, failed)
	w.process()
	wantNames(t, w.live())
	forced := *w.allocs[failed.ID]
	forced.DesiredTransition.ForceReschedule = &yes
	w.set(&forced)
	w.process()
	wantNames(t, w.live(), "j.g[0]")
}

func TestLost_Moved(t *testing.T) {
	setup := func(t *testing.T) (*world, *nomad.Allocation) {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{Unlimited: true, Delay: time.Hour})))
		w.process()
		return w, w.live()[0]
	}
	set := func(w *world, a *nomad.Allocation, edit func(*nomad.Allocation)) {
		out := *w.allocs[a.ID]
		edit(&out)
		w.set(&out)
	}
	t.Run("down", func(t *testing.T) {
		w, old := setup(t)
		w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		w.addNode("n2")
		w.process()
		got := w.live()
		if len(got) != 1 || got[0].NodeID != "n2" || got[0].PreviousAllocation != old.ID || got[0].Name != old.Name {
			t.Fatalf("live = %+v", got)
		}
		if l := w.allocs[old.ID]; l.ClientStatus != nomad.AllocClientStatusLost || l.DesiredStatus != nomad.AllocDesiredStatusStop {
			t.Errorf("lost allocation = %+v", l)
		}
	})
	t.Run("down before it stopped", func(t *testing.T) {
		w, old := setup(t)
		w.change(func(j *nomad.Job) { j.Stop = true })
		w.process()
		if a := w.allocs[old.ID]; !a.ServerTerminalStatus() || a.ClientTerminalStatus() {
			t.Fatalf("stopped = %+v", a)
		}
		w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		w.process()
		if a := w.allocs[old.ID]; a.ClientStatus != nomad.AllocClientStatusLost {
			t.Errorf("its client status is %s, want lost: until then its tokens are valid", a.ClientStatus)
		}
		plans := len(w.plans)
		w.process()
		for _, p := range w.plans[plans:] {
			if len(p.NodeUpdate) != 0 {
				t.Errorf("stopped again: %+v", p.NodeUpdate)
			}
		}
	})
	t.Run("lost without a feasible node", func(t *testing.T) {
		w, old := setup(t)
		delete(w.nodes, "n1")
		e := w.process()
		if e.FailedTGAllocs["g"] == nil || w.allocs[old.ID].ClientStatus != nomad.AllocClientStatusLost || len(w.created) != 1 {
			t.Errorf("evaluation = %+v", e)
		}
		w.addNode("n3")
		w.process()
		wantNames(t, w.live(), "j.g[0]")
	})
	t.Run("kept though lost", func(t *testing.T) {
		w, old := setup(t)
		w.report(nomad.AllocClientStatusRunning, nil, old)
		no := false
		w.change(func(j *nomad.Job) {
			j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{Replace: &no, LostAfter: time.Hour}
		})
		w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		w.addNode("n2")
		plans := len(w.plans)
		w.process()
		for _, p := range w.plans[plans:] {
			if len(p.NodeUpdate) != 0 || len(p.NodeAllocation["n2"]) != 0 { // it becomes unknown
				t.Errorf("plan = %+v for %s", p, old.ID)
			}
		}
	})
	t.Run("drained", func(t *testing.T) {
		w, old := setup(t)
		w.addNode("n1", func(n *nomad.Node) { n.DrainStrategy = &nomad.DrainStrategy{} })
		w.addNode("n2")
		w.process()
		if w.allocs[old.ID].TerminalStatus() {
			t.Fatal("moved before the drainer asked for it")
		}
		set(w, old, func(a *nomad.Allocation) { a.DesiredTransition.Migrate = &yes })
		w.process()
		if got := w.live(); len(got) != 1 || got[0].NodeID != "n2" || got[0].PreviousAllocation != old.ID {
			t.Errorf("live = %+v", got)
		}
	})
	t.Run("drained without placement", func(t *testing.T) { // only batch jobs know it
		w, old := setup(t)
		w.addNode("n2")
		set(w, old, func(a *nomad.Allocation) {
			a.DesiredTransition = nomad.DesiredTransition{Migrate: &yes, MigrateDisablePlacement: &yes}
		})
		w.process()
		wantNames(t, w.live(), "j.g[0]")
	})
	t.Run("failed on a node that went down", func(t *testing.T) { // its policy still decides
		w, old := setup(t)
		w.report(nomad.AllocClientStatusFailed, nil, old)
		w.addNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
		w.addNode("n2")
		w.process()
		if len(w.created) != 1 || w.created[0].WaitUntil.Sub(w.now) != time.Hour || len(w.live()) != 0 {
			t.Fatalf("follow-ups = %+v, %d live", w.created, len(w.live()))
		}
		w.now = w.created[0].WaitUntil
		w.process(func(e *nomad.Evaluation) { e.ID = w.created[0].ID })
		wantNames(t, w.live(), "j.g[0]")
	})
}

// The attempts of one evaluation share their follow-ups, even if the first plan with the marks is
// rejected.
func TestReschedule_RejectedPlan(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{Unlimited: true, Delay: time.Minute})))
	w.process()
	failed := w.live()[0]
	w.report(nomad.AllocClientStatusFailed, nil, failed)
	tries := 0
	w.refuse = func(string) bool { tries++; return tries < 3 }
	w.process()
	if len(w.created) != 1 || w.allocs[failed.ID].FollowupEvalID != w.created[0].ID {
		t.Errorf("created %d, allocation waits for %q", len(w.created), w.allocs[failed.ID].FollowupEvalID)
	}
}

// An unhealthy allocation that its deployment marked is replaced by the policy. One that a user
// stopped is replaced at once.
func TestReschedule_Marked(t *testing.T) {
	for _, unhealthy := range []bool{true, false} {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 1, rolling(1), policy(nomad.ReschedulePolicy{Unlimited: true, Delay: time.Minute})))
		w.process()
		old := w.live()[0]
		marked := *old
		marked.ClientStatus, marked.DesiredTransition.Reschedule = nomad.AllocClientStatusRunning, &yes
		marked.ModifyTime = w.now.UnixNano()
		if unhealthy {
			marked.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &no}
		}
		w.set(&marked)
		w.process()
		replaced := w.allocs[old.ID].TerminalStatus()
		if replaced == unhealthy || (len(w.created) == 1) != unhealthy {
			t.Errorf("unhealthy %v: replaced %v, %d follow-ups", unhealthy, replaced, len(w.created))
		}
		if !unhealthy {
			continue
		}
		w.now = w.created[0].WaitUntil
		w.process(func(e *nomad.Evaluation) { e.ID = w.created[0].ID })
		if a := w.live(); len(a) != 1 || a[0].PreviousAllocation != old.ID || len(a[0].RescheduleTracker.Events) != 1 {
			t.Errorf("live = %+v", a)
		}
	}
}

// After a reset, a fibonacci series begins again.
func TestReschedule_Fibonacci(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{
		Unlimited: true, Delay: time.Minute, DelayFunction: "fibonacci", MaxDelay: 2 * time.Minute})))
	w.process()
	for i, c := range []struct{ runs, want time.Duration }{
		{0, time.Minute}, {0, time.Minute}, {0, 2 * time.Minute}, {0, 2 * time.Minute}, // 3 is above the maximum
		{3 * time.Minute, time.Minute}, {0, time.Minute}, {0, 2 * time.Minute},
	} {
		w.now = w.now.Add(c.runs)
		w.report(nomad.AllocClientStatusFailed, nil, w.live()[0])
		w.process()
		follow := w.created[len(w.created)-1]
		if got := follow.WaitUntil.Sub(w.now); got != c.want {
			t.Fatalf("failure %d: delay %v, want %v", i+1, got, c.want)
		}
		w.now = follow.WaitUntil
		w.process(func(e *nomad.Evaluation) { e.ID = follow.ID })
	}
}
