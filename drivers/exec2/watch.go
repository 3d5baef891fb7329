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

// The sandbox of each task is compared with its policy after some seconds, and then every minute. The
// delay avoids slowing down starts and short tasks.
const (
	compareAfter = 3 * time.Second
	compareEvery = time.Minute
	comparePause = 5 * time.Millisecond // minimum interval between first comparisons
)

// watch observes running tasks: what their sandboxes refuse, and whether the sandboxes match their
// policies.
type watch struct {
	name    string // of the driver's instance
	log     *slog.Logger
	dir     string // state of the host's audit switches
	refused *Denials
	fresh   chan newcomer // tasks that have just started

	once    sync.Once
	explain denials.Mode // readable denials; set once

	mu    sync.Mutex
	tell  func(*drivers.TaskEvent) // nil: no receiver
	tasks map[string]string        // running tasks, with the last reported mismatch
	plain bool                     // unveil_by_task is off: jobs cannot unveil paths
}

func newWatch(name string, log *slog.Logger, refused *Denials) *watch {
	return &watch{name: name, log: log, dir: denials.DefaultDir, refused: refused, fresh: make(chan newcomer, 256), tasks: map[string]string{}}
}

// mode returns which denials can be reported: the operator's choice, limited by the kernel and the
// agent's rights.
func (w *watch) mode(set config.Plugin) denials.Mode {
	w.once.Do(func() { w.explain = w.readable(set.ExplainDenials) })
	return w.explain
}

// readable returns the wanted mode, or the best available one below it.
func (w *watch) readable(wanted string) denials.Mode {
	mode, err := denials.ParseMode(wanted)
	if err != nil || mode == denials.Off {
		return denials.Off // package config refuses invalid modes
	}
	if mode == denials.Audit {
		abi, _ := landlock.ABI() // 0 if not available
		if err = denials.Available(mode); err == nil && abi < landlock.ABIAudit {
			err = &landlock.TooOld{Have: abi, Want: landlock.ABIAudit}
		}
		if err == nil {
			return mode
		}
		w.log.Error("denials of Landlock are not explained", "explain_denials", wanted, "err", err)
		mode = denials.Calls
	}
	if err := denials.Available(mode); err != nil {
		w.log.Error("denied system calls are not explained", "explain_denials", wanted, "err", err)
		return denials.Off
	}
	return mode
}

// begin adds a task that is about to start, or that already runs. Its denials are reported only if
// the instance explains them: another instance may make the kernel record them.
func (w *watch) begin(t denials.Task, explained bool) {
	if explained {
		w.refused.add(t, w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.tasks[t.ID]; !known {
		w.tasks[t.ID] = ""
	}
}

// started schedules the first comparison of a task.
func (w *watch) started(id string) {
	select {
	case w.fresh <- newcomer{id, time.Now().Add(compareAfter)}:
	default: // the next round compares it
	}
}

func (w *watch) end(id string) {
	w.refused.remove(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tasks, id)
}

// say reports an event, if there is a receiver.
func (w *watch) say(e *drivers.TaskEvent) {
	w.mu.Lock()
	tell := w.tell
	w.mu.Unlock()
	if tell != nil {
		tell(e)
	}
}

// watches reports whether a task has not ended.
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

// newcomer is a task before its first comparison, and the time of that.
type newcomer struct {
	id  string
	due time.Time
}

// rounds compares each task soon after its start and then every minute, until ctx ends.
func (w *watch) rounds(ctx context.Context, compare func(id string)) {
	every := time.NewTicker(compareEvery)
	defer every.Stop()
	first := time.NewTimer(0)
	defer first.Stop()
	var young []newcomer // in the order of their starts
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
		d.log.Error("denials are no longer explained", "err", err) // comparisons continue
	}
	parts.Wait()
	return ctx.Err()
}

// readDenials reads the kernel's records until ctx ends, and then restores the host's switches.
func (w *watch) readDenials(ctx context.Context, mode denials.Mode) error {
	hold, err := denials.NewSwitch(w.dir, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err := hold.Release(); err != nil {
			w.log.Error("restore the audit switches", "err", err)
		}
	}()
	if mode == denials.Off {
		<-ctx.Done()
		return ctx.Err()
	}
	if mode == denials.Audit {
		w.log.Warn("auditing is on (explain_denials): without auditd, denials on this host also appear in the kernel's log")
	}
	return w.refused.read(ctx)
}

// WaitTask implements drivers.Driver. Denials of the task are reported before it returns.
func (d *Driver) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	exit, err := d.Tasks.WaitTask(ctx, id)
	if err == nil {
		d.watch.refused.watcher.Settle(ctx, id)
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
	t, err := d.Recovered(ctx, h)
	if err != nil {
		return err
	}
	d.watch.begin(watched(t), d.watch.mode(d.Current().Plugin) != denials.Off)
	return nil
}

// watched returns the data that attributes denials to a recovered task. Only the earlier agent could
// tell whether the uid of the task is unique, so its control group is used instead.
func watched(t *proc.Task) denials.Task {
	return denials.Task{ID: t.ID, PID: t.PID, UID: -1, Group: t.Group.Name}
}
