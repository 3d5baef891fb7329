// Package allochook has everything that surrounds the tasks of an allocation: one
// file a concern, each a value with a name and any of the interfaces below, in the
// order of order.go.
//
//	Prerun ─▶ (tasks run) ─▶ Postrun ─▶ ... ─▶ Destroy
//	               └─PreKill─┘
//	Update may come while the tasks run.
//
// Order and metrics are the loop's (client/allocrunner), which never asks for a
// hook by name.
package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/nomad"
)

// Hook is one concern of an allocation.
type Hook interface {
	// Name is unique in the list: it keys metrics and log lines.
	Name() string
}

// PrerunHook acts before any task starts, also when an agent takes the
// allocation over from an earlier one. An error fails the allocation.
type PrerunHook interface {
	Hook
	Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error
}

// UpdateHook acts when the servers changed the allocation.
type UpdateHook interface {
	Hook
	Update(ctx context.Context, req *UpdateRequest) error
}

// PreKillHook acts just before the tasks are stopped.
type PreKillHook interface {
	Hook
	PreKill(ctx context.Context) error
}

// PostrunHook acts when the last task has ended.
type PostrunHook interface {
	Hook
	Postrun(ctx context.Context) error
}

// DestroyHook acts when the allocation is removed from the node. It may be the
// only method called, and must not mind that there is nothing left.
type DestroyHook interface {
	Hook
	Destroy(ctx context.Context) error
}

// PrerunRequest is what a hook is told before the tasks start.
type PrerunRequest struct {
	Alloc *nomad.Allocation
}

// PrerunResponse is what a hook gives to the run.
type PrerunResponse struct {
	Dir *allocdir.Dir
	// Background runs beside the tasks. Its context ends when they are over or the
	// agent shuts down, and the loop waits for it.
	Background func(ctx context.Context)
}

// UpdateRequest carries the allocation as the servers have it now.
type UpdateRequest struct {
	Alloc *nomad.Allocation
}
