package allocrunner

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
)

// blocked is an update hook that waits until it is released.
type blocked struct {
	turn chan struct{}
	seen []uint64
	over bool

	following, followed bool // the Background function runs, or has ended
}

func (*blocked) Name() string { return "blocked" }

func (b *blocked) Update(ctx context.Context, req *allochook.UpdateRequest, resp *allochook.UpdateResponse) error {
	b.seen = append(b.seen, req.Alloc.AllocModifyIndex)
	select {
	case <-b.turn:
	case <-ctx.Done():
		b.over = true
	}
	if len(b.seen) == 1 {
		resp.Background = func(ctx context.Context) {
			b.following = true
			<-ctx.Done()
			b.followed = true
		}
	}
	return ctx.Err()
}

// A slow update hook does not block Update, gets the newest of the updates that arrived
// meanwhile, and ends with the runner, like its Background function.
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
		r.cfg.Update = func(*nomad.Allocation) {}
		r.tasks = map[string]*taskrunner.Runner{"main": taskrunner.New(taskrunner.Config{Alloc: alloc, Task: task, Node: &nomad.Node{},
			Driver: mock.New(mock.Name, slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler)})}
		ctx, cancel := context.WithCancel(t.Context())
		var work, background sync.WaitGroup
		work.Go(func() {
			var none sync.WaitGroup                                                                  // the task runner does not run
			r.loop(ctx, &none, func(fn func(context.Context)) { background.Go(func() { fn(ctx) }) }) //nolint:errcheck // that of ctx
		})
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
		if !hook.following {
			t.Error("the Background function of the hook does not run")
		}
		cancel()
		work.Wait()
		background.Wait()
		if !slices.Equal(hook.seen, []uint64{0, 3}) || !hook.over || !hook.followed {
			t.Errorf("the hook got %v, ended with the runner: %t, %t; want the first and the newest", hook.seen, hook.over, hook.followed)
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
