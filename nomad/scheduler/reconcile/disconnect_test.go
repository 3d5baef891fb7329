package reconcile

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestClassOf has one row for each line of the table of classes in the facts.
func TestClassOf(t *testing.T) {
	const (
		ready, down, gone, init = nomad.NodeStatusReady, nomad.NodeStatusDown, nomad.NodeStatusDisconnected, nomad.NodeStatusInit
		run, stop               = nomad.AllocDesiredStatusRun, nomad.AllocDesiredStatusStop
		pending, running        = nomad.AllocClientStatusPending, nomad.AllocClientStatusRunning
		failed, disconnected    = nomad.AllocClientStatusFailed, nomad.AllocClientStatusUnknown
		complete                = nomad.AllocClientStatusComplete
	)
	now, no := time.Unix(10_000, 0), false
	ago := func(d time.Duration) []*nomad.AllocState {
		return []*nomad.AllocState{{Value: disconnected, Time: now.Add(-d)}}
	}
	returned := append(ago(time.Minute), &nomad.AllocState{Value: running, Time: now})
	keeps := func(lost time.Duration) *nomad.DisconnectStrategy { return &nomad.DisconnectStrategy{LostAfter: lost} }
	stays := &nomad.DisconnectStrategy{Replace: &no, LostAfter: time.Hour}
	for _, c := range []struct {
		name            string
		node            string // status, empty: deleted
		desired, client string
		states          []*nomad.AllocState
		group           *nomad.DisconnectStrategy
		want            class
	}{
		{"1 failed while away", gone, run, failed, ago(time.Minute), keeps(time.Hour), reconnecting},
		{"1 failed, on a ready node", ready, run, failed, ago(time.Minute), keeps(time.Hour), reconnecting},
		{"3 stopped", ready, stop, running, nil, nil, connected},
		{"3 stopped on a node that is down", down, stop, running, nil, nil, connected},
		{"5 complete", down, run, complete, nil, nil, connected},
		{"5 failed", down, run, failed, nil, nil, connected},
		{"6 expired", gone, run, disconnected, ago(time.Hour), keeps(time.Hour), lost},
		{"6 expired on a ready node", ready, run, disconnected, ago(2 * time.Hour), keeps(time.Hour), lost},
		{"7 failed and stopped", ready, stop, failed, ago(time.Minute), keeps(time.Hour), ignored},
		{"8 unknown", gone, run, disconnected, ago(time.Minute), keeps(time.Hour), unknown},
		{"9 pending", gone, run, pending, nil, keeps(time.Hour), lost},
		{"10 no lost_after", gone, run, running, nil, keeps(0), lost},
		{"10 no block", gone, run, running, nil, nil, lost},
		{"11 running", gone, run, running, nil, keeps(time.Hour), disconnecting},
		{"13 returned", ready, run, running, ago(time.Minute), keeps(time.Hour), reconnecting},
		{"13 returned before", ready, run, running, returned, keeps(time.Hour), connected},
		{"13 not reported yet", init, run, disconnected, ago(time.Minute), keeps(time.Hour), unknown},
		{"14 never away", ready, run, running, nil, keeps(time.Hour), connected},
		{"15 deleted", "", run, running, nil, keeps(time.Hour), lost},
		{"16 down, unknown, not replaced", down, run, disconnected, ago(time.Minute), stays, unknown},
		{"17 down, running, not replaced", down, run, running, nil, stays, disconnecting},
		{"18 down", down, run, running, nil, keeps(time.Hour), lost},
		{"18 down, pending, not replaced", down, run, pending, nil, stays, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			tg := &nomad.TaskGroup{Name: "g", Disconnect: c.group}
			a := &nomad.Allocation{ID: "a", TaskGroup: "g", DesiredStatus: c.desired, ClientStatus: c.client, AllocStates: c.states,
				Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{tg}}}
			var node *nomad.Node
			if c.node != "" {
				node = &nomad.Node{Status: c.node}
			}
			if got := classOf(a, node, tg, now); got != c.want {
				t.Errorf("classOf() = %d, want %d", got, c.want)
			}
		})
	}
}

func TestKeepsOriginal(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	type side struct {
		version   uint64
		score     float64 // 0: none
		status    string
		start     int64
		restarted int64
	}
	alloc := func(id string, s side) *nomad.Allocation {
		a := &nomad.Allocation{ID: id, NodeID: id, TaskGroup: "g", ClientStatus: s.status, Metrics: &nomad.AllocMetric{},
			Job: &nomad.Job{Version: s.version,
				TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "side"}, {Name: "main", Leader: true}}}}}}
		if s.status == "" {
			a.ClientStatus = nomad.AllocClientStatusRunning
		}
		if s.score != 0 {
			a.Metrics.ScoreMetaData = []*nomad.NodeScoreMeta{{NodeID: "other", NormScore: 9}, {NodeID: id, NormScore: s.score}}
		}
		if s.start != 0 {
			state := &nomad.TaskState{StartedAt: at(s.start)}
			if s.restarted != 0 {
				state.LastRestart = at(s.restarted)
			}
			a.TaskStates = map[string]*nomad.TaskState{"main": state, "side": {StartedAt: at(1)}}
		}
		return a
	}
	const original, replacement, best, longest = nomad.ReconcileKeepOriginal, nomad.ReconcileKeepReplacement, nomad.ReconcileBestScore, nomad.ReconcileLongestRunning
	for _, c := range []struct {
		name     string
		strategy string
		was, is  side
		want     bool
	}{
		{"original", original, side{score: 0.1}, side{score: 0.9}, true},
		{"replacement", replacement, side{score: 0.9}, side{score: 0.1}, false},
		{"newer replacement", original, side{}, side{version: 1}, false},
		{"newer original", replacement, side{version: 1}, side{}, true},
		{"best score, original", best, side{score: 0.9}, side{score: 0.1}, true},
		{"best score, replacement", best, side{score: 0.1}, side{score: 0.9}, false},
		{"best score, same", best, side{score: 0.5}, side{score: 0.5}, true},
		{"best score, none", best, side{}, side{}, true},
		{"best score, only the replacement has one", best, side{}, side{score: 0.1}, false},
		{"best score, the replacement does not run", best, side{score: 0.1}, side{score: 0.9, status: nomad.AllocClientStatusPending}, true},
		{"best score, neither runs", best, side{score: 0.1, status: nomad.AllocClientStatusPending},
			side{score: 0.9, status: nomad.AllocClientStatusPending}, false},
		{"without a strategy", "", side{score: 0.1}, side{score: 0.9}, false},
		{"longest, original", longest, side{start: 5}, side{start: 9, score: 0.9}, true},
		{"longest, replacement", longest, side{start: 9, score: 0.9}, side{start: 5}, false},
		{"longest, the original restarted", longest, side{start: 5, restarted: 20}, side{start: 9}, false},
		{"longest, the replacement has not started", longest, side{start: 5}, side{score: 0.9}, true},
		{"longest, the original has not started", longest, side{}, side{start: 5}, false},
		{"longest, neither has started", longest, side{score: 0.1}, side{score: 0.9}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := keepsOriginal(alloc("a", c.was), alloc("b", c.is), c.strategy); got != c.want {
				t.Errorf("keepsOriginal() = %v, want %v", got, c.want)
			}
		})
	}
}

func TestReplacements(t *testing.T) {
	a := &nomad.Allocation{ID: "a", NextAllocation: "b"}
	b := &nomad.Allocation{ID: "b", NextAllocation: "c", DesiredStatus: nomad.AllocDesiredStatusStop}
	c := &nomad.Allocation{ID: "c", NextAllocation: "a"} // a cycle, which a broken state could have
	other := &nomad.Allocation{ID: "d"}
	got := replacements(a, []*nomad.Allocation{other, c, b, a})
	if len(got) != 1 || got[0] != c {
		t.Errorf("replacements() = %v, want c", got)
	}
	if got := replacements(other, []*nomad.Allocation{a, b, c, other}); len(got) != 0 {
		t.Errorf("replacements() of an allocation without one = %v", got)
	}
}
