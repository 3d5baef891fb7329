package exec2

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
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
// policies. It implements process.Observer.
type watch struct {
	name    string // of the driver's instance
	log     *slog.Logger
	dir     string        // state of the host's audit switches
	wanted  func() string // the operator's explain_denials
	refused *Denials
	fresh   chan newcomer // tasks that have just started

	once    sync.Once
	explain denials.Mode // readable denials; set once

	mu     sync.Mutex
	report func(*drivers.TaskEvent) // nil: no receiver
	tasks  map[string]*watched      // running tasks
	plain  bool                     // unveil_by_task is off: jobs cannot unveil paths
}

// watched is a running task. Denials are attributed to its uid if only this task has it, else to its
// control group. Only the agent that started a task can tell.
type watched struct {
	uid      int    // or -1
	mismatch string // the last reported one
}

func newWatch(name string, log *slog.Logger, refused *Denials, wanted func() string) *watch {
	return &watch{name: name, log: log, dir: denials.DefaultDir, wanted: wanted, refused: refused,
		fresh: make(chan newcomer, 256), tasks: map[string]*watched{}}
}

// mode returns which denials can be reported: the operator's choice, limited by the kernel and the
// agent's rights.
func (w *watch) mode() denials.Mode {
	w.once.Do(func() { w.explain = w.readable(w.wanted()) })
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

// Starting implements process.Observer.
func (w *watch) Starting(cfg *drivers.TaskConfig, p *process.Program) {
	t := denials.Task{ID: cfg.ID, UID: dynamicUID(cfg.User, p.Policy.User)}
	if p.Limits != nil {
		t.Group = process.GroupName(cfg).Name
	}
	w.add(t)
}

// Running implements process.Observer. It schedules the first comparison of a task that was started;
// the next round compares one that was recovered.
func (w *watch) Running(t *proc.Task) {
	w.mu.Lock()
	known, uid := w.tasks[t.ID], -1
	if known != nil {
		uid = known.uid
	}
	w.mu.Unlock()
	w.add(denials.Task{ID: t.ID, PID: t.PID, UID: uid, Group: t.Group.Name})
	if known == nil {
		return
	}
	select {
	case w.fresh <- newcomer{t.ID, time.Now().Add(compareAfter)}:
	default: // the next round compares it
	}
}

// add adds a task, or what is now known of it. Its denials are reported only if the instance explains
// them: another instance may make the kernel record them.
func (w *watch) add(t denials.Task) {
	if w.mode() != denials.Off {
		w.refused.add(t, w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tasks[t.ID] == nil {
		w.tasks[t.ID] = &watched{uid: t.UID}
	}
}

// Exited implements process.Observer. It returns when the denials of the task are reported.
func (w *watch) Exited(ctx context.Context, id string) { w.refused.watcher.Flush(ctx, id) }

// Removed implements process.Observer.
func (w *watch) Removed(id string) {
	w.refused.remove(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tasks, id)
}

// emit reports an event, if there is a receiver.
func (w *watch) emit(e *drivers.TaskEvent) {
	w.mu.Lock()
	report := w.report
	w.mu.Unlock()
	if report != nil {
		report(e)
	}
}

// watches reports whether a task has not ended.
func (w *watch) watches(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[id] != nil
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
func (d *Driver) Report(ctx context.Context, report func(*drivers.TaskEvent)) error {
	set := d.Current()
	d.watch.mu.Lock()
	d.watch.report, d.watch.plain = report, !set.UnveilByTask
	d.watch.mu.Unlock()
	defer func() {
		d.watch.mu.Lock()
		d.watch.report = nil
		d.watch.mu.Unlock()
	}()
	var parts sync.WaitGroup
	kill := set.OnMismatch == config.OnMismatchKill
	parts.Go(func() { d.watch.rounds(ctx, func(id string) { d.compare(ctx, id, kill) }) })
	parts.Go(func() { d.ReportLogs(ctx, report) })
	if err := d.watch.readDenials(ctx, d.watch.mode()); ctx.Err() == nil {
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

// dynamicUID returns the uid if only this task has it, else -1.
func dynamicUID(name string, u *sandbox.User) int {
	if u != nil && u.UID > 0 && name == hostuser.DynamicName(u.UID) {
		return int(u.UID)
	}
	return -1
}
