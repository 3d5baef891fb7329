// Package allochook has everything that surrounds the tasks of an allocation: one
// file a concern, each a value with a name and any of the interfaces below, in the
// order of order.go.
//
//	Prerun ─▶ (tasks run) ─▶ Postrun ─▶ ... ─▶ Destroy
//	               └─Update
//
// Order and metrics are those of client/hook; the loop is client/allocrunner.
package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// PrerunHook acts before any task starts, also when an agent takes the
// allocation over from an earlier one. An error fails the allocation.
type PrerunHook interface {
	hook.Hook
	Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error
}

// UpdateHook acts when the servers changed the allocation.
type UpdateHook interface {
	hook.Hook
	Update(ctx context.Context, req *UpdateRequest) error
}

// PostrunHook acts when the last task is over, also when an earlier agent saw that. It
// may run more than once, and without a Prerun.
type PostrunHook interface {
	hook.Hook
	Postrun(ctx context.Context) error
}

// DestroyHook acts when the allocation is removed from the node. It may be the
// only method called, and must not mind that there is nothing left.
type DestroyHook interface {
	hook.Hook
	Destroy(ctx context.Context) error
}

// PrerunRequest is what a hook is told before the tasks start.
type PrerunRequest struct {
	Alloc *nomad.Allocation
}

// PrerunResponse is what a hook gives to the run.
type PrerunResponse struct {
	Dir *allocdir.Dir
	// NetNS is the path of the allocation's own network namespace, Network what the
	// servers are told of it.
	NetNS   string
	Network *nomad.AllocNetworkStatus
	// Background runs beside the tasks. Its context ends when they are over or the
	// agent shuts down, and the loop waits for it.
	Background func(ctx context.Context)
}

// UpdateRequest carries the allocation as the servers have it now.
type UpdateRequest struct {
	Alloc *nomad.Allocation
}
