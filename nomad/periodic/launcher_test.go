package periodic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/periodic"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// world is a cluster without workers: a log and, while lead runs, a leader that launches.
type world struct {
	*testlog.Log
	t        *testing.T
	launcher *periodic.Launcher
}

// start is the time at which the clock of synctest begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// within runs fn with a fake clock.
func within(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := testlog.New(nil)
		fn(&world{Log: l, t: t, launcher: launcher(l, l)})
	})
}

func launcher(l *testlog.Log, raft consensus.Log) *periodic.Launcher {
	return periodic.New(periodic.Config{Store: l.Store, Raft: raft, Log: slog.New(slog.DiscardHandler),
		Admission: admission.New(admission.Config{
			Region: "global", Kinds: drivers.Table(), Schemas: schema.NewSet(drivers.Table())})})
}

// force launches a job for its author.
func (w *world) force(id string) (*message.PeriodicForceResponse, error) {
	snap := w.Snapshot()
	job := snap.Job(nil, "default", id)
	return w.launcher.Force(w.t.Context(), snap, admission.Author(job), job)
}

// lead runs a launcher until the returned function is called.
func (w *world) lead() (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- w.launcher.Run(ctx) }()
	synctest.Wait()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run() = %v", err)
		}
	}
}

// until moves the clock to a time after the start.
func (w *world) until(d time.Duration) {
	time.Sleep(time.Until(start.Add(d)))
	synctest.Wait()
}

// cron registers a periodic job.
func (w *world) cron(spec string, edit ...func(*nomad.Job)) *nomad.Job {
	w.t.Helper()
	return w.Job(w.t, nomad.JobTypeBatch, 1, append([]func(*nomad.Job){func(j *nomad.Job) {
		j.ID = "j"
		j.Periodic = &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC", Spec: spec}
	}}, edit...)...)
}

// expect compares the launches of the job with times after the start.
func (w *world) expect(want ...time.Duration) {
	w.t.Helper()
	var got []time.Duration
	for child := range w.Snapshot().JobChildren(nil, nomad.DefaultNamespace, "j") {
		at, ok := nomad.LaunchTime("j", child.ID)
		if !ok {
			w.t.Errorf("child with ID %q", child.ID)
		}
		got = append(got, at.Sub(start))
		if v := len(w.Snapshot().JobVersions(nil, child.Namespace, child.ID)); v != 1 {
			w.t.Errorf("child %q has %d versions", child.ID, v)
		}
		evals := slices.Collect(w.Snapshot().EvalsByJob(nil, child.Namespace, child.ID))
		if len(evals) != 1 || evals[0].TriggeredBy != nomad.EvalTriggerPeriodicJob {
			w.t.Errorf("child %q has %d evaluations", child.ID, len(evals))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("launches %v after the start, want %v", got, want)
	}
}

// finish makes all evaluations of the children complete, so that the children are dead.
func (w *world) finish() {
	w.t.Helper()
	var evals []*nomad.Evaluation
	for e := range w.Snapshot().Evals(nil) {
		done := *e
		done.Status = nomad.EvalStatusComplete
		evals = append(evals, &done)
	}
	w.Must(w.t, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: evals})
	synctest.Wait()
}

const minute, hour = time.Minute, time.Hour

func TestLaunch(t *testing.T) {
	within(t, func(w *world) {
		end := w.lead()
		defer end()
		job := w.cron("*/15 * * * *", func(j *nomad.Job) {
			j.Payload, j.Meta = []byte("p"), map[string]string{"k": "v"}
			j.TaskGroups[0].Scaling = &nomad.ScalingPolicy{ID: "s", Type: "horizontal", Max: 2}
		})
		w.until(15*minute - 1)
		w.expect()
		w.until(30 * minute)
		w.expect(15*minute, 30*minute)

		child := w.Snapshot().Job(nil, job.Namespace, fmt.Sprint("j/periodic-", start.Add(15*minute).Unix()))
		if child.Name != child.ID || child.ParentID != "j" || child.Periodic != nil || child.Meta["k"] != "v" || string(child.Payload) != "p" {
			t.Errorf("child %+v", child)
		}
		if p := w.Snapshot().ScalingPolicy(nil, "s"); p == nil || p.Target[nomad.ScalingTargetJob] != "j" || child.TaskGroups[0].Scaling != nil {
			t.Errorf("policy of the job after a launch: %+v", p)
		}
		if sum := w.Snapshot().JobSummary(nil, job.Namespace, "j"); sum.Children.Pending != 2 {
			t.Errorf("children of the job: %+v", sum.Children)
		}
	})
}

// Several expressions fire at their earliest next time, in the zone of the job.
func TestSeveralCrons(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("", func(j *nomad.Job) {
			j.Periodic.Specs, j.Periodic.TimeZone = []string{"30 3 * * *", "0 2 * * *", "0 2 1 * *"}, "Europe/Berlin"
		})
		w.until(25 * hour)
		w.expect(hour, 2*hour+30*minute, 25*hour)
	})
}

// A change of the job applies at once, also if the next time becomes earlier.
func TestUpdate(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("@daily")
		w.until(30 * minute)
		w.cron("@hourly")
		w.until(2 * hour)
		w.expect(hour, 2*hour)
		w.cron("@hourly", func(j *nomad.Job) { j.Periodic.Enabled = false })
		w.until(4 * hour)
		w.expect(hour, 2*hour)
		// The launches while it was disabled were not missed.
		w.until(4*hour + 1)
		w.cron("@hourly")
		w.until(5 * hour)
		w.expect(hour, 2*hour, 5*hour)
		w.Must(t, message.JobDeregisterRequestType,
			&message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}})
		w.until(6 * hour)
		w.expect(hour, 2*hour, 5*hour)
		w.Must(t, message.JobDeregisterRequestType,
			&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}})
		w.until(7 * hour)
		w.expect(hour, 2*hour, 5*hour)
	})
}

func TestProhibitOverlap(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("@hourly", func(j *nomad.Job) { j.Periodic.ProhibitOverlap = true })
		w.until(2*hour + minute) // the evaluation of the first launch is pending
		w.expect(hour)
		w.finish() // the second launch is skipped, not queued
		w.until(3*hour - 1)
		w.expect(hour)
		w.until(3 * hour)
		w.expect(hour, 3*hour)
	})
}

// A new leader makes up for missed launches once, and never launches twice.
func TestChangeOfLeaders(t *testing.T) {
	for name, c := range map[string]struct {
		from, to time.Duration // without a leader
		late     time.Duration // launch by the new leader
	}{
		"nothing missed":           {90 * minute, 100 * minute, 0},
		"one missed":               {90 * minute, 125 * minute, 2 * hour},
		"several missed":           {90 * minute, 4*hour + 5*minute + 300*time.Millisecond, 4*hour + 5*minute},
		"several, the last is now": {90 * minute, 4*hour + 300*time.Millisecond, 4 * hour},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(w *world) {
				end := w.lead()
				w.cron("@hourly")
				w.until(c.from)
				end()
				w.until(c.to)
				want := []time.Duration{hour}
				if c.late != 0 {
					want = append(want, c.late)
				}
				for range 3 { // leaders soon after each other
					w.launcher = launcher(w.Log, w.Log)
					end := w.lead()
					w.expect(want...)
					end()
				}
				defer w.lead()()
				w.until(5 * hour)
				for at := c.to.Truncate(hour) + hour; at <= 5*hour; at += hour {
					want = append(want, at)
				}
				w.expect(want...)
			})
		})
	}
}

// A launch that was skipped because of an overlap counts as missed for the next leader.
func TestChangeOfLeadersOverlap(t *testing.T) {
	within(t, func(w *world) {
		end := w.lead()
		w.cron("@hourly", func(j *nomad.Job) { j.Periodic.ProhibitOverlap = true })
		w.until(2*hour + minute)
		end()
		end = w.lead() // still overlaps
		w.until(2*hour + 2*minute)
		w.expect(hour)
		end()
		w.finish()
		defer w.lead()()
		w.expect(hour, 2*hour)
	})
}

// committer is a log that fails as Raft fails.
type committer struct {
	*testlog.Log
	mu       sync.Mutex
	lost     int // entries that are not written
	unnoted  int // entries that are written, but reported as failed
	attempts int
}

func (c *committer) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts++
	switch {
	case c.lost > 0:
		c.lost--
		return 0, errors.New("timed out")
	case c.unnoted > 0:
		c.unnoted--
		if _, err := c.Log.Apply(ctx, t, payload); err != nil {
			return 0, err
		}
		return 0, errors.New("leadership lost while committing log")
	}
	return c.Log.Apply(ctx, t, payload)
}

// tried returns the number of attempts.
func (c *committer) tried() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts
}

func TestFailedWrites(t *testing.T) {
	for name, c := range map[string]struct{ lost, unnoted, attempts int }{
		"lost":     {lost: 2, attempts: 3},
		"reported": {unnoted: 1, attempts: 1}, // state has it
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(w *world) {
				raft := &committer{Log: w.Log, lost: c.lost, unnoted: c.unnoted}
				w.launcher = launcher(w.Log, raft)
				defer w.lead()()
				w.cron("@hourly")
				w.until(hour + minute)
				w.expect(hour)
				if got := raft.tried(); got != c.attempts {
					t.Errorf("%d attempts, want %d", got, c.attempts)
				}
			})
		})
	}
}

// A launch that the state rejects is not tried again, and the next one is.
func TestRejected(t *testing.T) {
	within(t, func(w *world) {
		raft := &committer{Log: w.Log}
		w.launcher = launcher(w.Log, raft)
		defer w.lead()()
		job := w.cron("@hourly")
		taken := codec.Copy(job)
		taken.ID, taken.Periodic = nomad.PeriodicChildID("j", start.Add(hour)), nil
		w.Must(t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: taken})
		w.until(2*hour - 1)
		if got := raft.tried(); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
		w.until(2 * hour)
		w.expect(2 * hour)
	})
}

// The rules of the namespace at the time of the launch apply.
func TestNamespaceRules(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("@hourly")
		w.Must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{
			{Name: "default", Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"mock_driver"}}}}})
		w.until(2 * hour)
		w.expect()
		if _, err := w.force("j"); err == nil || !strings.Contains(err.Error(), "mock_driver") {
			t.Errorf("Force() = %v", err)
		}
		w.Must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "default"}}})
		w.until(3 * hour)
		w.expect(3 * hour)
	})
}

// TestRefusedLaunchIsVisible checks that a failed evaluation has the reason of a refused launch, for a job that was valid
// in an earlier version. The job stays periodic, and can be stopped.
func TestRefusedLaunchIsVisible(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("@hourly", func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${attr.a}", Operand: "regexp", RTarget: "("}}
		})
		w.until(2 * hour)
		w.expect()
		snap := w.Snapshot()
		var got []string
		for e := range snap.EvalsByJob(nil, "default", "j") {
			if e.TriggeredBy == nomad.EvalTriggerPeriodicJob && e.Status == nomad.EvalStatusFailed &&
				strings.Contains(e.StatusDescription, "malformed") {
				got = append(got, e.ID)
			}
		}
		if len(got) != 2 {
			t.Errorf("%d failed evaluations with the reason, want 2", len(got))
		}
		if j := snap.Job(nil, "default", "j"); j.Status != nomad.JobStatusRunning {
			t.Errorf("status of the job is %q, want running", j.Status)
		}
		w.Must(t, message.JobDeregisterRequestType,
			&message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}})
		if j := w.Snapshot().Job(nil, "default", "j"); j.Status != nomad.JobStatusDead {
			t.Errorf("status of the stopped job is %q, want dead", j.Status)
		}
	})
}

// A job that this version cannot schedule does not stop the others.
func TestInvalidCron(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("nonsense", func(j *nomad.Job) { j.ID = "a" })
		w.cron("0 0 30 2 *", func(j *nomad.Job) { j.ID = "never" })
		w.cron("@hourly")
		w.until(hour)
		w.expect(hour)
	})
}

func TestForce(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		w.cron("@hourly", func(j *nomad.Job) { j.Periodic.ProhibitOverlap = true })
		w.until(10*minute + 400*time.Millisecond)
		first, err := w.force("j")
		if err != nil {
			t.Fatal(err)
		}
		w.expect(10 * minute)
		again, err := w.force("j")
		if err != nil || again.EvalID != first.EvalID || again.EvalCreateIndex != first.EvalCreateIndex {
			t.Errorf("Force() in the same second = %+v, %v; want %+v", again, err, first)
		}
		w.until(10*minute + time.Second)
		if _, err := w.force("j"); err != nil { // ignores the overlap
			t.Error(err)
		}
		w.expect(10*minute, 10*minute+time.Second)
		w.finish()
		w.until(hour)
		w.expect(10*minute, 10*minute+time.Second, hour)
		w.cron("@hourly", func(j *nomad.Job) { j.ID, j.Periodic.Enabled = "off", false })
		w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) { j.ID = "batch" })
		for id, want := range map[string]string{
			"off": `can't force run non-tracked job "off" (default)`, "batch": "can't force launch non-periodic job",
		} {
			if _, err := w.force(id); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("Force(%q) = %v, want %q", id, err, want)
			}
		}
	})
}

// Many jobs are due in one second: each is launched once.
func TestMany(t *testing.T) {
	within(t, func(w *world) {
		defer w.lead()()
		for i := range 1000 {
			w.cron("0 1 * * *", func(j *nomad.Job) { j.ID = fmt.Sprint("cron-", i) })
		}
		w.until(hour)
		for i := range 1000 {
			children := slices.Collect(w.Snapshot().JobChildren(nil, "default", fmt.Sprint("cron-", i)))
			if len(children) != 1 || children[0].Version != 0 {
				t.Errorf("job %d has %d children", i, len(children))
			}
		}
	})
}
