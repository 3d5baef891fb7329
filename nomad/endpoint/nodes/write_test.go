package nodes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// confirming is a cluster whose leadership is confirmed by a function.
type confirming struct {
	handler.Cluster
	confirm func() error
}

func (c confirming) Confirm(context.Context) error { return c.confirm() }

// A leader that was replaced without noticing does not acknowledge the status of an allocation that its successor
// placed, and that it lacks.
func TestUpdatesOfUnknownAllocs(t *testing.T) {
	l := testlog.New(nil)
	node := l.Node(t)
	job := l.Job(t, nomad.JobTypeService, 1)
	known, late := l.Alloc(t, job, node), nomad.NewID()
	asked := 0
	var answer error
	s := &Service{Core: &handler.Core{Config: handler.Config{Store: l.Store, Cluster: confirming{confirm: func() error {
		asked++
		if answer == nil {
			l.Alloc(t, job, node, func(a *nomad.Allocation) { a.ID = late })
		}
		return answer
	}}}}}

	if _, err := s.snapshotWith(t.Context(), []*nomad.Allocation{known}); err != nil || asked != 0 {
		t.Errorf("a known allocation: %v, leadership was confirmed %d times, want 0", err, asked)
	}
	answer = apierror.ErrNoLeader
	if _, err := s.snapshotWith(t.Context(), []*nomad.Allocation{known, {ID: late}}); !errors.Is(err, apierror.ErrNoLeader) || asked != 1 {
		t.Errorf("an unknown one at a replaced leader: %v, want %v", err, apierror.ErrNoLeader)
	}
	answer = nil
	snap, err := s.snapshotWith(t.Context(), []*nomad.Allocation{known, {ID: late}})
	if err != nil || snap.Alloc(nil, late) == nil {
		t.Errorf("the snapshot after the confirmation lacks the allocation: %v", err)
	}
}

// TestFollowUp_EndTable holds the evaluations that reports of clients create against the table in nomad/ending.go: an
// allocation that the scheduler replaces after a delay needs one, so that its job does not wait for another event.
func TestFollowUp_EndTable(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		l := testlog.New(nil)
		known := l.Alloc(t, l.Job(t, typ, 1), l.Node(t))
		s := &Service{Core: &handler.Core{Config: handler.Config{Store: l.Store, Now: time.Now}}}
		for _, status := range []string{nomad.AllocClientStatusRunning, nomad.AllocClientStatusComplete, nomad.AllocClientStatusFailed} {
			update := *known
			update.ClientStatus = status
			ending := nomad.EndingOf(typ, status)
			want := ending == nomad.EndByPolicy || ending == nomad.EndDelayed
			if got := s.followUp(l.Store().Snapshot(), known, &update); (got != nil) != want {
				t.Errorf("allocation of a %s job is %s, which means %q: evaluation %v, want one: %t", typ, status, ending, got, want)
			}
		}
	}
}

// The report of a node that its drain is complete follows the rule of the drainer: it waits for every allocation that the
// drain concerns.
func TestDrained(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		for _, ignoreSystem := range []bool{false, true} {
			for _, status := range []string{nomad.AllocClientStatusRunning, nomad.AllocClientStatusComplete} {
				l := testlog.New(nil)
				node := l.Node(t)
				l.Alloc(t, l.Job(t, typ, 1), node, func(a *nomad.Allocation) { a.ClientStatus = status })
				l.Must(t, message.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: node.ID,
					DrainStrategy: &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: ignoreSystem}}})
				want := status == nomad.AllocClientStatusComplete || ignoreSystem && typ == nomad.JobTypeSystem
				if got := drained(l.Snapshot(), node.ID); got != want {
					t.Errorf("%s allocation, %s, ignore_system_jobs %t: drained() = %t, want %t", typ, status, ignoreSystem, got, want)
				}
			}
		}
	}
}
