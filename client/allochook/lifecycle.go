// Package allochook holds the hooks that run around the tasks of an allocation. Each concern
// has one file and one hook, which implements any of the interfaces below. order.go sets their
// order.
//
//	           ┌─PreTaskRestart─┐
//	           ▼                │
//	Prerun ─▶ (tasks run) ──────┴─▶ PreKill ─▶ (tasks end) ─▶ Postrun ─▶ ... ─▶ Destroy
//	               └─Update             ▲
//	               └─(all tasks end)────┼─▶ Postrun
//
// PreKill runs once, before the first task is stopped. It does not run if the tasks end by themselves.
//
// To add a hook:
//
//  1. Write a file with the type, its Name, the methods it needs and a constructor
//     func(Config) hook.Hook.
//  2. Add the constructor to Order, at the place where the hook must run.
//
// A new dependency on the node is a new field of Deps, which package client sets (client/allocations.go).
// The runners only pass Deps on, so they need no change.
//
// Package client/hook calls and measures the hooks; client/allocrunner holds the loop.
package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// PrerunHook runs before any task starts, also when a restarted agent restores the allocation.
// An error fails the allocation.
type PrerunHook interface {
	hook.Hook
	Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error
}

// UpdateHook runs when the servers have updated the allocation.
type UpdateHook interface {
	hook.Hook
	Update(ctx context.Context, req *UpdateRequest, resp *UpdateResponse) error
}

// PreTaskRestartHook runs before the running tasks of the allocation are restarted together.
type PreTaskRestartHook interface {
	hook.Hook
	PreTaskRestart(ctx context.Context, req *PreTaskRestartRequest) error
}

// PreKillHook runs once, before any task is stopped for whatever reason. The stop waits for it. The shutdown_delay of
// the group begins afterwards.
type PreKillHook interface {
	hook.Hook
	PreKill(ctx context.Context, req *PreKillRequest) error
}

// PostrunHook runs when all tasks are dead, also if that happened under an earlier agent. It
// may run more than once, and without Prerun.
type PostrunHook interface {
	hook.Hook
	Postrun(ctx context.Context) error
}

// DestroyHook runs when the allocation is removed from the node. It may be the only method
// called, and must succeed if there is nothing to remove.
type DestroyHook interface {
	hook.Hook
	Destroy(ctx context.Context) error
}

// PrerunRequest is the input of a Prerun hook.
type PrerunRequest struct {
	Alloc *nomad.Allocation
	// Dir, NetNS and Network are those of the previous hooks' responses.
	Dir     *allocdir.Dir
	NetNS   string
	Network *nomad.AllocNetworkStatus
	// Restored reports that processes of an earlier agent may run. An error would end them.
	Restored bool
}

// PrerunResponse is the output of a Prerun hook.
type PrerunResponse struct {
	Dir *allocdir.Dir
	// NetNS is the path of the allocation's network namespace. Network is the status that is
	// reported to the servers.
	NetNS     string
	NetLabels map[string]string // of the driver that created NetNS
	Network   *nomad.AllocNetworkStatus
	Hostname  string // of the tasks in NetNS, "" for that of the node
	// Background runs while the tasks run. Its context ends when they are dead or the agent
	// shuts down. The loop waits for it. A hook that has nothing to follow has none: each costs a goroutine per
	// allocation.
	Background func(ctx context.Context)
}

// UpdateRequest holds the updated allocation.
type UpdateRequest struct {
	Alloc *nomad.Allocation
}

// UpdateResponse is the output of an Update hook.
type UpdateResponse struct {
	// Background is like that of PrerunResponse, for a hook that had nothing to follow until this update.
	Background func(ctx context.Context)
}

// PreTaskRestartRequest is the input of a PreTaskRestart hook.
type PreTaskRestartRequest struct {
	// Delay waits for the shutdown_delay of the group. It returns early if the allocation is stopped.
	Delay func(ctx context.Context)
}

// PreKillRequest is empty.
type PreKillRequest struct{}
