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

	"github.com/open-nomad/open-nomad/internal/wake"
)

// Mode selects the records to read.
type Mode string

// The modes, by their names in the configuration.
const (
	Off   Mode = "off"
	Calls Mode = "seccomp"
	Audit Mode = "audit"
)

// ParseMode parses a mode; the empty string is Off.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Off, nil
	case Off, Calls, Audit:
		return m, nil
	}
	return Off, fmt.Errorf("%q is not one of off, seccomp, audit", s)
}

const (
	// maxDistinct limits the different denials that are kept and reported per task.
	maxDistinct = 64
	// maxReported limits the text of one report.
	maxReported = 8 << 10
	// settleTime is the delay after a first denial for related ones, and after the end of a task
	// for records in transit.
	settleTime = 100 * time.Millisecond
	// pause is the minimum interval between two reports about one task.
	pause = 5 * time.Second
	// floodSize is the number of denials since the last report that make a flood. A report waits
	// until the flood ends, up to floodTime. Denials that are equal to listed ones, or exceed the
	// list, are reported only as a flood, at intervals of floodPause.
	floodSize  = 100
	floodTime  = 2 * time.Second
	floodPause = time.Minute
	// maxReports limits the reports about one task.
	maxReports = 64
)

// Task is a watched task.
type Task struct {
	ID    string
	PID   int    // of its main process
	UID   int    // uid that only this task has, or -1
	Group string // name of its control group, or ""
}

// Report holds all denials of a task so far, in order.
type Report struct {
	TaskID  string
	At      time.Time // of the newest denial
	Denials []Denial
	Counts  []int // number of repetitions, by index of Denials
	New     int   // number of new Denials, at the end of the list
	More    bool  // there are unlisted denials
	Count   int   // all denials since the last report, including repetitions and unlisted ones
	Last    bool  // this is the last report about the task
}

// Flood reports whether the report is about the number of denials.
func (r Report) Flood() bool { return r.Count >= floodSize }

// Watcher reads the kernel's records for the added tasks. Its methods may be called concurrently.
type Watcher struct {
	log  *slog.Logger
	tell func(Report)

	telling sync.Mutex // held from taking reports until they are delivered; locked before mu

	mu      sync.Mutex
	running bool
	tasks   map[string]*watched
	owners  owners
	pending pending
	lost    int
	wake    wake.Signal // something is due earlier than before
}

// watched is a task and its denials.
type watched struct {
	Task
	denials  []Denial
	counts   []int // repetitions of each
	size     int   // length of denials as text
	reported int   // number of reported denials
	more     bool
	count    int       // denials since the last report
	since    time.Time // time of the first of these
	reports  int
	at       time.Time // time of the newest denial
	due      time.Time // time of the next report; zero: nothing new
	last     time.Time // time of the last report
}

// New returns a watcher that passes reports to tell, which must return quickly.
func New(log *slog.Logger, tell func(Report)) *Watcher {
	return &Watcher{log: log, tell: tell, tasks: map[string]*watched{}, owners: newOwners(), wake: wake.New()}
}

// Add adds a task. It replaces one with the same ID and keeps its denials.
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

// Remove removes a task.
func (w *Watcher) Remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.forget()
	if t := w.tasks[id]; t != nil {
		w.owners.remove(t.Task)
		delete(w.tasks, id)
	}
}

// Flush returns when the denials of a task that has ended are reported. It returns at once if
// nothing is read.
func (w *Watcher) Flush(ctx context.Context, id string) {
	w.mu.Lock()
	watched := w.running && w.tasks[id] != nil
	w.mu.Unlock()
	if !watched {
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

// read reads records until the listener is closed.
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

// overrun counts losses and logs powers of two.
func (w *Watcher) overrun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
	if w.lost&(w.lost-1) == 0 {
		w.log.Warn("audit records were lost: not every denial is reported", "times", w.lost)
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

// counted handles a denial without parsing its record: it repeats an attributed one, or the list of
// its task is full.
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

// call handles a denial by seccomp.
func (w *Watcher) call(r record, text []byte, now time.Time) {
	d, ok := seccompDenial(r)
	if !ok || d.isNoise() {
		w.pending.seen(text, nil)
		return
	}
	id := w.owners.ofRecord(r)
	if id == "" { // until a task is added that may have the process
		w.pending.seen(text, nil)
		return
	}
	w.pending.seen(text, w.add(id, d, now))
}

// refused handles a denial by Landlock. If its domain is unknown, another record names the process.
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

// domain handles a record about the process of a Landlock domain, or the domain's end.
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

// called handles a record about the caller of a refused system call.
func (w *Watcher) called(r record, now time.Time) {
	list := w.pending.pop(func(p waiting) bool { return p.serial == r.serial })
	if len(list) == 0 {
		return
	}
	id := w.owners.ofRecord(r)
	if id == "" {
		return // not a task
	}
	for _, p := range list {
		w.owners.learn(p.domain, id)
		w.add(id, p.denial, now)
	}
}

// add adds a denial and returns its tally.
func (w *Watcher) add(id string, d Denial, now time.Time) *tally {
	t := w.tasks[id]
	if t == nil {
		return nil
	}
	i := slices.Index(t.denials, d)
	if i < 0 && !t.more {
		if size := len(d.String()) + len(d.Unveil) + len(d.Path); len(t.denials) == maxDistinct || t.size+size > maxReported {
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

// again counts a denial, and the listed one i if i is not negative.
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

// plan schedules a report at due, or after the pause.
func (w *Watcher) plan(t *watched, due time.Time, pause time.Duration) {
	if next := t.last.Add(pause); next.After(due) {
		due = next
	}
	if t.reports == maxReports || !t.due.IsZero() && !due.Before(t.due) {
		return
	}
	t.due = due
	w.wake.Send()
}

// untilDue returns the time until the next report.
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

// report delivers the due reports.
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
			t.due = t.at.Add(settleTime) // it continues: one report for all of it
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
		New: len(t.denials) - t.reported, More: t.more, Count: t.count, Last: t.reports == maxReports}
	t.reported, t.due, t.last, t.count = len(t.denials), time.Time{}, now, 0
	return r
}
