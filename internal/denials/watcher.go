package denials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mode is what is read.
type Mode string

// The modes, as operators name them.
const (
	Off   Mode = "off"
	Calls Mode = "seccomp"
	Audit Mode = "audit"
)

// ParseMode reads a mode; the empty string is Off.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Off, nil
	case Off, Calls, Audit:
		return m, nil
	}
	return Off, fmt.Errorf("%q is none of off, seccomp, audit", s)
}

const (
	// maxDistinct is how many different refusals of a task are kept and told.
	maxDistinct = 64
	// maxTold bounds the text of what is told of a task at a time.
	maxTold = 8 << 10
	// settleTime is waited after a first refusal for those that come with it, and after
	// the end of a task for records that are under way.
	settleTime = 100 * time.Millisecond
	// pause is kept between two reports about one task.
	pause = 5 * time.Second
	// floodSize is how many refusals since the last report are a flood. A flood is waited for,
	// up to floodTime, and reported once. Further refusals that are equal to listed ones, or
	// more than can be listed, are reported when they are a flood, floodPause apart.
	floodSize  = 100
	floodTime  = 2 * time.Second
	floodPause = time.Minute
	// maxReports bounds the reports about one task.
	maxReports = 64
)

// Task is one whose sandbox is watched.
type Task struct {
	ID    string
	PID   int    // of its main process
	UID   int    // of its own, which no other task has meanwhile; -1 when it has none
	Group string // name of its control group, "" when it has none
}

// Report is what is known of a task: all that was refused to it so far, in the order
// in which it came.
type Report struct {
	TaskID  string
	At      time.Time // of the newest
	Denials []Denial
	Counts  []int // how often each of Denials came
	New     int   // how many of Denials, at their end, were not told before
	More    bool  // further ones are not listed
	Count   int   // how many refusals came since the last report, equal ones and unlisted ones too
	Last    bool  // no more is reported of this task
}

// Flood reports whether so much came at once that the report is of the number.
func (r Report) Flood() bool { return r.Count >= floodSize }

// Watcher reads the kernel's records for the tasks that it was told of. Its methods
// may be called concurrently.
type Watcher struct {
	log  *slog.Logger
	tell func(Report)

	telling sync.Mutex // held from the taking of reports until they are told; before mu

	mu      sync.Mutex
	running bool
	tasks   map[string]*watched
	owners  owners
	pending pending
	lost    int
	wake    chan struct{} // buffered 1: something is due earlier than before
}

// watched is a task and what was refused to it.
type watched struct {
	Task
	denials []Denial
	counts  []int // how often each of them came
	size    int   // of denials, as text
	told    int   // of denials
	more    bool
	count   int       // of refusals since the last report
	since   time.Time // of the first of these
	reports int
	at      time.Time // of the newest refusal
	due     time.Time // when to tell next; zero: nothing new
	last    time.Time // when it was told
}

// New returns a watcher that gives reports to tell, which must be quick.
func New(log *slog.Logger, tell func(Report)) *Watcher {
	return &Watcher{log: log, tell: tell, tasks: map[string]*watched{}, owners: newOwners(), wake: make(chan struct{}, 1)}
}

// Add begins to watch a task; one with the same ID is replaced and its refusals kept.
func (w *Watcher) Add(t Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.forget()
	if old := w.tasks[t.ID]; old != nil {
		w.owners.replace(old.Task, t)
		old.Task = t
		return
	}
	w.tasks[t.ID] = &watched{Task: t}
	w.owners.add(t)
}

// Remove forgets a task.
func (w *Watcher) Remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.forget()
	if t := w.tasks[id]; t != nil {
		w.owners.remove(t.Task)
		delete(w.tasks, id)
	}
}

// Settle returns when what was refused to a task that has ended is told. It returns at
// once when nothing is read.
func (w *Watcher) Settle(ctx context.Context, id string) {
	w.mu.Lock()
	known := w.running && w.tasks[id] != nil
	w.mu.Unlock()
	if !known {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleTime):
	}
	w.telling.Lock()
	defer w.telling.Unlock()
	w.mu.Lock()
	t := w.tasks[id]
	var r *Report
	if t != nil && !t.due.IsZero() {
		r = t.report(time.Now())
	}
	w.mu.Unlock()
	if r != nil {
		w.tell(*r)
	}
}

// Run reads records until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	l, err := listen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	failed := make(chan error, 1)
	reader.Go(func() { failed <- w.read(l) })
	defer reader.Wait()
	defer l.close() //nolint:errcheck // it was only read from
	defer cancel()
	w.setRunning(true)
	defer w.setRunning(false)
	for {
		timer := time.NewTimer(w.untilDue(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case err := <-failed:
			timer.Stop()
			return err
		case <-w.wake:
			timer.Stop()
		case now := <-timer.C:
			w.report(now)
		}
	}
}

func (w *Watcher) setRunning(running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = running
}

// read takes records until the listener is closed.
func (w *Watcher) read(l *listener) error {
	for {
		kind, text, err := l.next()
		if errors.Is(err, errOverrun) {
			w.overrun()
			continue
		}
		if err != nil {
			return fmt.Errorf("read audit records: %w", err)
		}
		w.take(kind, text, time.Now())
	}
}

// overrun counts what was lost; powers of two are logged.
func (w *Watcher) overrun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
	if w.lost&(w.lost-1) == 0 {
		w.log.Warn("audit records were lost: not every refusal is told", "times", w.lost)
	}
}

// take attributes one record.
func (w *Watcher) take(kind uint16, text []byte, now time.Time) {
	switch kind {
	case unix.AUDIT_LANDLOCK_ACCESS, unix.AUDIT_LANDLOCK_DOMAIN, unix.AUDIT_SYSCALL, unix.AUDIT_SECCOMP:
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == unix.AUDIT_SYSCALL && len(w.pending.list) == 0 || w.counted(kind, text, now) {
		return
	}
	r, ok := parseRecord(text)
	if !ok {
		return
	}
	switch kind {
	case unix.AUDIT_LANDLOCK_ACCESS:
		w.refused(r, text, now)
	case unix.AUDIT_LANDLOCK_DOMAIN:
		w.domain(r, now)
	case unix.AUDIT_SYSCALL:
		w.called(r, now)
	case unix.AUDIT_SECCOMP:
		w.call(r, text, now)
	}
}

// counted deals with a refusal that needs no look at its record: it is equal to one that was
// attributed, or its task has as many as are listed.
func (w *Watcher) counted(kind uint16, text []byte, now time.Time) bool {
	if t, ok := w.pending.repeated(kind, text); ok {
		if t != nil {
			w.again(t.task, t.denial, now)
		}
		return true
	}
	if kind != unix.AUDIT_LANDLOCK_ACCESS {
		return false
	}
	t := w.tasks[w.owners.domains[string(domainOf(text))]]
	if t == nil || !t.more {
		return false
	}
	w.again(t, -1, now)
	return true
}

// call takes what seccomp refused.
func (w *Watcher) call(r record, text []byte, now time.Time) {
	d, ok := seccompDenial(r)
	if !ok || d.isNoise() {
		w.pending.seen(text, nil)
		return
	}
	id := w.owners.ofRecord(r)
	if id == "" { // until a task comes that may have the process
		w.pending.seen(text, nil)
		return
	}
	w.pending.seen(text, w.add(id, d, now))
}

// refused takes what Landlock refused. Whose domain it was comes in another record, if
// it is not known.
func (w *Watcher) refused(r record, text []byte, now time.Time) {
	d, ok := landlockDenial(r)
	if !ok || d.isNoise() {
		w.pending.seen(text, nil)
		return
	}
	domain := r.fields["domain"]
	if id := w.owners.ofDomain(domain); id != "" {
		w.pending.seen(text, w.add(id, d, now))
		return
	}
	w.pending.push(waiting{serial: r.serial, domain: domain, denial: d})
}

// domain takes which process a Landlock domain was made by, or that it is gone.
func (w *Watcher) domain(r record, now time.Time) {
	domain := r.fields["domain"]
	if r.fields["status"] == "deallocated" {
		w.owners.forget(domain)
		return
	}
	id := w.owners.ofRecord(r)
	if id == "" {
		return
	}
	w.owners.learn(domain, id)
	for _, p := range w.pending.pop(func(p waiting) bool { return p.domain == domain }) {
		w.add(id, p.denial, now)
	}
}

// called takes who made a system call in which something was refused.
func (w *Watcher) called(r record, now time.Time) {
	list := w.pending.pop(func(p waiting) bool { return p.serial == r.serial })
	if len(list) == 0 {
		return
	}
	id := w.owners.ofRecord(r)
	if id == "" {
		return // not a task's
	}
	for _, p := range list {
		w.owners.learn(p.domain, id)
		w.add(id, p.denial, now)
	}
}

// add notes a refusal and returns where equal ones are counted.
func (w *Watcher) add(id string, d Denial, now time.Time) *tally {
	t := w.tasks[id]
	if t == nil {
		return nil
	}
	i := slices.Index(t.denials, d)
	if i < 0 && !t.more {
		if size := len(d.String()) + len(d.Unveil) + len(d.Path); len(t.denials) == maxDistinct || t.size+size > maxTold {
			t.more = true
		} else {
			i, t.size = len(t.denials), t.size+size
			t.denials, t.counts = append(t.denials, d), append(t.counts, 0)
		}
		w.plan(t, now.Add(settleTime), pause)
	}
	w.again(t, i, now)
	return &tally{t, i}
}

// again counts a refusal, of the listed one i if that is not negative.
func (w *Watcher) again(t *watched, i int, now time.Time) {
	if i >= 0 {
		t.counts[i]++
	}
	if t.count == 0 {
		t.since = now
	}
	t.at = now
	if t.count++; t.count == floodSize {
		w.plan(t, now.Add(settleTime), floodPause)
	}
}

// plan has a report made at due, or when the pause after the last one is over.
func (w *Watcher) plan(t *watched, due time.Time, pause time.Duration) {
	if next := t.last.Add(pause); next.After(due) {
		due = next
	}
	if t.reports == maxReports || !t.due.IsZero() && !due.Before(t.due) {
		return
	}
	t.due = due
	select {
	case w.wake <- struct{}{}:
	default: // it wakes anyhow
	}
}

// untilDue is how long there is nothing to tell.
func (w *Watcher) untilDue(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := time.Hour
	for _, t := range w.tasks {
		if !t.due.IsZero() {
			wait = min(wait, max(t.due.Sub(now), 0))
		}
	}
	return wait
}

// report tells what is due.
func (w *Watcher) report(now time.Time) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.mu.Lock()
	var out []Report
	for _, t := range w.tasks {
		if t.due.IsZero() || t.due.After(now) {
			continue
		}
		if t.count >= floodSize && now.Sub(t.at) < settleTime && now.Sub(t.since) < floodTime {
			t.due = t.at.Add(settleTime) // it goes on: one report for all of it
			continue
		}
		out = append(out, *t.report(now))
	}
	w.mu.Unlock()
	for _, r := range out {
		w.tell(r)
	}
}

func (t *watched) report(now time.Time) *Report {
	t.reports++
	r := &Report{TaskID: t.ID, At: t.at, Denials: slices.Clone(t.denials), Counts: slices.Clone(t.counts),
		New: len(t.denials) - t.told, More: t.more, Count: t.count, Last: t.reports == maxReports}
	t.told, t.due, t.last, t.count = len(t.denials), time.Time{}, now, 0
	return r
}
