package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// class is how the connection of its client affects an allocation of a service or batch job.
type class int

const (
	connected     class = 0 // not affected
	ignored       class = 1 // it does not count
	unknown       class = 2 // its client may return
	disconnecting class = 3 // it becomes unknown
	reconnecting  class = 4 // its client returned
	lost          class = 5
)

// classOf classifies an allocation by the connection of its client.
//
//	connected ──heartbeats missed──▶ disconnecting ──▶ unknown ──client returns──▶ reconnecting
//	    └──lost_after 0, or not running──▶ lost ◀──lost_after──┘
//
// node is nil if it does not exist.
func classOf(a *nomad.Allocation, node *nomad.Node, tg *nomad.TaskGroup, now time.Time) class {
	returned := a.WasUnknown()
	stops := a.ServerTerminalStatus()
	switch {
	case returned && stops && a.ClientStatus == nomad.AllocClientStatusFailed:
		return ignored
	case returned && a.ClientStatus == nomad.AllocClientStatusFailed:
		return reconnecting
	case stops && !returned, a.ClientTerminalStatus():
		return connected
	case a.ClientStatus == nomad.AllocClientStatusUnknown && !a.LastUnknown().Add(tg.LostAfter()).After(now):
		return lost
	}
	switch {
	case node == nil:
		return lost
	case node.Status == nomad.NodeStatusDisconnected:
		return whileDisconnected(a, tg)
	case node.Status == nomad.NodeStatusDown && a.ClientStatus == nomad.AllocClientStatusUnknown && !tg.ReplacesDisconnected():
		return unknown
	case node.Status == nomad.NodeStatusDown && a.ClientStatus == nomad.AllocClientStatusRunning && !tg.ReplacesDisconnected():
		return disconnecting
	case node.Status == nomad.NodeStatusDown:
		return lost
	case a.ClientStatus == nomad.AllocClientStatusUnknown:
		return unknown // its client has not reported yet
	case returned:
		return reconnecting
	}
	return connected
}

// whileDisconnected classifies an allocation of a disconnected node.
func whileDisconnected(a *nomad.Allocation, tg *nomad.TaskGroup) class {
	switch {
	case a.ClientStatus == nomad.AllocClientStatusUnknown:
		return unknown
	case a.ClientStatus == nomad.AllocClientStatusPending, tg.LostAfter() == 0:
		return lost
	}
	return disconnecting
}
