package allocrunner

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/nomad"
)

// blocked is an update hook that waits until it is released.
type blocked struct {
	turn chan struct{}
	seen []uint64
	over bool
}

func (*blocked) Name() string { return "blocked" }

func (b *blocked) Update(ctx context.Context, req *allochook.UpdateRequest) error {
	b.seen = append(b.seen, req.Alloc.AllocModifyIndex)
	select {
	case <-b.turn:
	case <-ctx.Done():
		b.over = true
	}
	return ctx.Err()
}

// A slow update hook does not block Update, gets the newest of the updates that arrived
// meanwhile, and ends with the runner.
func TestUpdateDoesNotWaitForHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := &nomad.Task{Name: "main", Driver: "mock_driver"}
		alloc := &nomad.Allocation{ID: nomad.NewID(), TaskGroup: "g",
			Job: &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}}}
		r, err := New(Config{Alloc: alloc, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		hook := &blocked{turn: make(chan struct{})}
		r.hooks.Hooks = append(r.hooks.Hooks, hook)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.runUpdates(ctx); close(ended) }()
		for index := range uint64(4) {
			next := *alloc
			next.AllocModifyIndex = index
			r.Update(&next)
			if index == 0 {
				synctest.Wait() // the hook is running
			}
		}
		hook.turn <- struct{}{}
		synctest.Wait()
		cancel()
		<-ended
		if !slices.Equal(hook.seen, []uint64{0, 3}) || !hook.over {
			t.Errorf("the hook got %v, ended with the runner: %t; want the first and the newest", hook.seen, hook.over)
		}
	})
}

// A task that must stop does not start.
func TestStoppedTasksDoNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := &nomad.Task{Name: "main", Driver: "mock_driver"}
		alloc := &nomad.Allocation{ID: nomad.NewID(), TaskGroup: "g", DesiredStatus: nomad.AllocDesiredStatusStop,
			Job: &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}}}
		r, err := New(Config{Alloc: alloc, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r.Update(alloc)
		var work sync.WaitGroup
		for range 2 { // the first call runs the pre-kill hooks
			r.step(t.Context(), &work)
			work.Wait()
		}
		select {
		case <-r.gates["main"]:
			t.Error("a task of a stopped allocation may start")
		default:
		}
	})
}
