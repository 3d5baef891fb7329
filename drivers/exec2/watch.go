package exec2

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The sandbox of each task is compared with its policy when it has lived for a while, so
// that short tasks cost nothing and the start of many is not slowed, and then every minute.
const (
	compareAfter = 3 * time.Second
	compareEvery = time.Minute
	comparePause = 5 * time.Millisecond // at least, between the first ones
)

// watch is what the driver sees of its running tasks beside their exits: what their
// sandboxes refuse, and whether these are as declared.
type watch struct {
	log     *slog.Logger
	dir     string // of the host's state of auditing
	refused *denials.Watcher
	fresh   chan newcomer // tasks that have just started

	once    sync.Once
	explain denials.Mode // what can be read; set once

	mu    sync.Mutex
	tell  func(*drivers.TaskEvent) // nil: nobody wants to know
	tasks map[string]string        // running ones, with what was told of their mismatch
	plain bool                     // unveil_by_task is off: a task cannot help itself
}

func newWatch(log *slog.Logger) *watch {
	w := &watch{log: log, dir: denials.DefaultDir, fresh: make(chan newcomer, 256), tasks: map[string]string{}}
	w.refused = denials.New(log, w.denied)
	return w
}

// mode is what of refusals can be told here: what the operator wants, if the kernel
// and the agent's rights allow it.
func (w *watch) mode(set config.Plugin) denials.Mode {
	w.once.Do(func() { w.explain = w.readable(set.ExplainDenials) })
	return w.explain
}

// readable is the mode that is wanted, or the best below it that can be had.
func (w *watch) readable(wanted string) denials.Mode {
	mode, err := denials.ParseMode(wanted)
	if err != nil || mode == denials.Off {
		return denials.Off // package config has refused what is no mode
	}
	if mode == denials.Audit {
		abi, _ := landlock.ABI() // 0 without
		if err = denials.Available(mode); err == nil && abi < landlock.ABIAudit {
			err = &landlock.TooOld{Have: abi, Want: landlock.ABIAudit}
		}
		if err == nil {
			return mode
		}
		w.log.Error("what Landlock refuses is not explained", "explain_denials", wanted, "err", err)
		mode = denials.Calls
	}
	if err := denials.Available(mode); err != nil {
		w.log.Error("refused system calls are not explained", "explain_denials", wanted, "err", err)
		return denials.Off
	}
	return mode
}

// begin watches a task that is about to start, or that runs already.
func (w *watch) begin(t denials.Task) {
	w.refused.Add(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.tasks[t.ID]; !known {
		w.tasks[t.ID] = ""
	}
}

// started has a task compared soon.
func (w *watch) started(id string) {
	select {
	case w.fresh <- newcomer{id, time.Now().Add(compareAfter)}:
	default: // the next round compares it
	}
}

func (w *watch) end(id string) {
	w.refused.Remove(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tasks, id)
}

// say tells of a task, if anybody wants to know.
func (w *watch) say(e *drivers.TaskEvent) {
	w.mu.Lock()
	tell := w.tell
	w.mu.Unlock()
	if tell != nil {
		tell(e)
	}
}

// watches says whether a task has not ended.
func (w *watch) watches(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.tasks[id]
	return known
}

func (w *watch) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, 0, len(w.tasks))
	for id := range w.tasks {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// newcomer is a task that is not yet compared, and when it will be.
type newcomer struct {
	id  string
	due time.Time
}

// rounds has each task compared soon after its start and every minute, until ctx ends.
func (w *watch) rounds(ctx context.Context, compare func(id string)) {
	every := time.NewTicker(compareEvery)
	defer every.Stop()
	first := time.NewTimer(0)
	defer first.Stop()
	var young []newcomer // in the order of their starts; first is that of the eldest
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-w.fresh:
			if young = append(young, n); len(young) == 1 {
				first.Reset(time.Until(n.due))
			}
		case <-first.C:
			if len(young) == 0 {
				continue
			}
			if w.watches(young[0].id) {
				compare(young[0].id)
			}
			if young = young[1:]; len(young) > 0 {
				first.Reset(max(time.Until(young[0].due), comparePause))
			}
		case <-every.C:
			for _, id := range w.ids() {
				compare(id)
			}
		}
	}
}

// Report implements drivers.Reporter.
func (d *Driver) Report(ctx context.Context, tell func(*drivers.TaskEvent)) error {
	set := d.Current()
	d.watch.mu.Lock()
	d.watch.tell, d.watch.plain = tell, !set.UnveilByTask
	d.watch.mu.Unlock()
	defer func() {
		d.watch.mu.Lock()
		d.watch.tell = nil
		d.watch.mu.Unlock()
	}()
	var parts sync.WaitGroup
	kill := set.OnMismatch == config.OnMismatchKill
	parts.Go(func() { d.watch.rounds(ctx, func(id string) { d.compare(ctx, id, kill) }) })
	parts.Go(func() { d.ReportLogs(ctx, tell) })
	if err := d.watch.readDenials(ctx, d.watch.mode(set.Plugin)); ctx.Err() == nil {
		d.log.Error("refusals are not explained any more", "err", err) // sandboxes are compared on
	}
	parts.Wait()
	return ctx.Err()
}

// readDenials reads the kernel's records until ctx ends, and puts the host's switches
// back as they were.
func (w *watch) readDenials(ctx context.Context, mode denials.Mode) error {
	hold, err := denials.Hold(w.dir, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err := hold.Release(); err != nil {
			w.log.Error("auditing is not as it was found", "err", err)
		}
	}()
	if mode == denials.Off {
		<-ctx.Done()
		return ctx.Err()
	}
	if mode == denials.Audit {
		w.log.Warn("the kernel's auditing is on (explain_denials): where no auditd runs, what is refused on this host is in the kernel's log too")
	}
	return w.refused.Run(ctx)
}

// WaitTask implements drivers.Driver. What was refused to the task is told before.
func (d *Driver) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	exit, err := d.Tasks.WaitTask(ctx, id)
	if err == nil {
		d.watch.refused.Settle(ctx, id)
	}
	return exit, err
}

// DestroyTask implements drivers.Driver.
func (d *Driver) DestroyTask(id string, force bool) error {
	err := d.Tasks.DestroyTask(id, force)
	if err == nil {
		d.watch.end(id)
	}
	return err
}

// RecoverTask implements drivers.Driver.
func (d *Driver) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	if err := d.Tasks.RecoverTask(ctx, h); err != nil {
		return err
	}
	t, err := d.super.Task(ctx, h.TaskID)
	if err != nil {
		return nil //nolint:nilerr // it was there a moment ago: the wait for it tells
	}
	d.watch.begin(watched(t))
	return nil
}

// watched is how records are attributed to a task that runs. Whether its uid is its own
// alone an earlier agent knew; its control group says as much.
func watched(t *proc.Task) denials.Task {
	return denials.Task{ID: t.ID, PID: t.PID, UID: -1, Group: t.Group.Name}
}
