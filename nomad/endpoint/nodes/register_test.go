package nodes

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
)

// A node that missed its heartbeat is disconnected while one of its allocations may be unknown, and down otherwise.
func TestMayReturn(t *testing.T) {
	now := time.Unix(10_000, 0)
	running := func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusRunning }
	unknown := func(ago time.Duration) func(*nomad.Allocation) {
		return func(a *nomad.Allocation) {
			running(a)
			*a = *a.WithState(nomad.AllocClientStatusUnknown, now.Add(-ago))
			a.ClientStatus = nomad.AllocClientStatusUnknown
		}
	}
	stopped := func(a *nomad.Allocation) { running(a); a.DesiredStatus = nomad.AllocDesiredStatusStop }
	for name, c := range map[string]struct {
		status    string
		lostAfter time.Duration // 0: without a disconnect block
		alloc     func(*nomad.Allocation)
		want      bool
	}{
		"running":                         {nomad.NodeStatusReady, time.Hour, running, true},
		"without a disconnect block":      {nomad.NodeStatusReady, 0, running, false},
		"stopped by the servers":          {nomad.NodeStatusReady, time.Hour, stopped, false},
		"without allocations":             {nomad.NodeStatusReady, time.Hour, nil, false},
		"the node is initializing":        {nomad.NodeStatusInit, time.Hour, running, false},
		"unknown":                         {nomad.NodeStatusDisconnected, time.Hour, unknown(59 * time.Minute), true},
		"unknown for longer than allowed": {nomad.NodeStatusDisconnected, time.Hour, unknown(time.Hour), false},
		"completed": {nomad.NodeStatusReady, time.Hour,
			func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusComplete }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := testlog.New(nil)
			node := l.Node(t, func(n *nomad.Node) { n.Status = c.status })
			other := l.Node(t)
			job := l.Job(t, nomad.JobTypeService, 1, func(j *nomad.Job) {
				if c.lostAfter > 0 {
					j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: c.lostAfter}
				}
			})
			l.Alloc(t, job, other, running)
			if c.alloc != nil {
				l.Alloc(t, job, node, c.alloc)
			}
			if got := mayReturn(l.Snapshot(), node, now); got != c.want {
				t.Errorf("mayReturn() = %v, want %v", got, c.want)
			}
		})
	}
}
