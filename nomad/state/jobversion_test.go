package state_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// restored returns the state that another server restores from a snapshot with the records in
// reverse order.
func (w *world) restored() *world {
	w.t.Helper()
	to := state.NewRestore(slog.New(slog.DiscardHandler))
	all := state.Tables()
	for i := range all {
		rec := all[len(all)-1-i]
		for row := range rec.Rows(w.snap()) {
			text, err := codec.Encode(row)
			if err == nil {
				err = rec.Read(to, func(v any) error { return codec.Decode(text, v) })
			}
			if err != nil {
				w.t.Fatalf("%s: %v", rec.Name, err)
			}
		}
	}
	return &world{Store: to.Finish(), t: w.t, index: w.index}
}

// numbers lists the kept versions of a job.
func (w *world) numbers(job string) string {
	out := ""
	for _, v := range w.snap().JobVersions(nil, "default", job) {
		out += fmt.Sprint(" ", v.Version)
		if one := w.snap().JobVersion(nil, "default", job, v.Version); one != v {
			w.t.Errorf("version %d is %v by its number, %v in the list", v.Version, one, v)
		}
	}
	return out
}

// TestVersions registers versions before and after a restore. They are found by number and listed
// newest first. The oldest is dropped, and a purge deletes all of them.
func TestVersions(t *testing.T) {
	w := newWorld(t)
	w.job("web")
	w.job("web", func(j *nomad.Job) { j.Priority = 60 })
	w.job("other")
	at := w.restored()
	for _, s := range []*world{w, at} {
		if got := s.numbers("web"); got != " 1 0" {
			t.Errorf("the versions are%s", got)
		}
		s.job("web", func(j *nomad.Job) { j.Priority = 70 })
		if got := s.numbers("web"); got != " 2 1 0" {
			t.Errorf("the versions are%s after another", got)
		}
		for v := range uint64(3) {
			s.ok(s.SetJobStability(s.next(),
				&message.JobStabilityRequest{JobID: "web", JobVersion: v, Stable: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
			if !s.snap().JobVersion(nil, "default", "web", v).Stable {
				t.Errorf("version %d is not stable", v)
			}
		}
		if got := s.restored().numbers("web"); got != " 2 1 0" {
			t.Errorf("the versions are%s after a restore", got)
		}
		for range nomad.JobDefaultTrackedVersions {
			s.job("web")
		}
		if got := s.numbers("web"); got != " 8 7 6 5 4 2" {
			t.Errorf("the versions are%s after many, want the last five and the newest stable one", got)
		}
		s.ok(s.DeregisterJob(s.next(),
			&message.JobDeregisterRequest{JobID: "web", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
		if got := s.numbers("web"); got != "" || s.snap().JobSummary(nil, "default", "web") != nil || s.snap().Job(nil, "default", "web") != nil {
			t.Errorf("a purged job still has versions%s, job %v, summary %v", got, s.snap().Job(nil, "default", "web"),
				s.snap().JobSummary(nil, "default", "web"))
		}
		if got := s.numbers("other"); got != " 0" {
			t.Errorf("the versions of the other are%s", got)
		}
	}
}

// TestEvalsOfAJob checks that the evaluations of a job are all that name it, ordered by
// ID: also when the job is purged, when an evaluation changes its job, and after a restore.
func TestEvalsOfAJob(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	w := newWorld(t)
	for range 300 {
		job, id := fmt.Sprint("job", r.IntN(4)), fmt.Sprint("eval", r.IntN(20))
		switch r.IntN(6) {
		case 0:
			w.job(job)
		case 1:
			req := &message.JobDeregisterRequest{
				JobID:        job,
				Purge:        true,
				WriteRequest: message.WriteRequest{Namespace: "default"},
			}
			w.DeregisterJob(w.next(), req) //nolint:errcheck // it may be gone
		case 2:
			w.ok(w.Reap(w.next(), &message.EvalReapRequest{Evals: []string{id}}))
		default:
			w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{
				{ID: id, Namespace: "default", JobID: job, Priority: r.Int(), Status: nomad.EvalStatusPending},
				{ID: id + "-next", Namespace: "default", JobID: job, Status: nomad.EvalStatusComplete}}}))
		}
		from := w
		if r.IntN(10) == 0 {
			from = w.restored()
		}
		for n := range 4 {
			job := fmt.Sprint("job", n)
			var want []*nomad.Evaluation
			for e := range from.snap().Evals(nil) {
				if e.JobID == job {
					want = append(want, e)
				}
			}
			if got := slices.Collect(from.snap().EvalsByJob(nil, "default", job)); !slices.Equal(got, want) { // pointers
				t.Fatalf("%s has %d evaluations, by index %d", job, len(want), len(got))
			}
		}
	}
	for e := range w.snap().Evals(nil) {
		w.ok(w.Reap(w.next(), &message.EvalReapRequest{Evals: []string{e.ID}}))
	}
	if left := slices.Collect(w.restored().snap().EvalsByJob(nil, "default", "job0")); len(left) > 0 {
		t.Errorf("%d evaluations of job0 after all were deleted", len(left))
	}
}

// TestJobTablesWakeWaiters checks that a change of the summary, the versions or the
// evaluations of a job fires their watches and moves the index of their table.
func TestJobTablesWakeWaiters(t *testing.T) {
	w := newWorld(t)
	n, j := w.node("n1"), w.job("web")
	for name, look := range map[string]func(memdb.WatchSet){
		"summary":  func(ws memdb.WatchSet) { w.snap().JobSummary(ws, "default", "web") },
		"versions": func(ws memdb.WatchSet) { w.snap().JobVersions(ws, "default", "web") },
		"version":  func(ws memdb.WatchSet) { w.snap().JobVersion(ws, "default", "web", 99) },
		"evals":    func(ws memdb.WatchSet) { w.snap().EvalsByJob(ws, "default", "late") },
		"purged":   func(ws memdb.WatchSet) { w.snap().JobSummary(ws, "default", "gone") },
	} {
		ws := memdb.NewWatchSet()
		look(ws)
		before := w.snap()
		switch name {
		case "summary":
			w.place(j, func(a *nomad.Allocation) { a.NodeID = n.ID }, "a1")
		case "purged":
			w.job("gone")
		case "evals":
			w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{w.eval("late")}}))
		default:
			w.job("web", func(j *nomad.Job) { j.Priority = int(w.next()) })
		}
		select {
		case <-wakened(ws):
		default:
			t.Errorf("the watch of the %s did not fire", name)
		}
		if name == "evals" {
			continue
		}
		changed := map[string][2]uint64{}
		for _, table := range []string{state.TableJobs, state.TableJobSummary, state.TableJobVersion} {
			changed[table] = [2]uint64{before.TableIndex(table), w.snap().TableIndex(table)}
		}
		if name == "summary" && changed[state.TableJobVersion][0] != changed[state.TableJobVersion][1] ||
			name == "summary" && changed[state.TableJobSummary][0] == changed[state.TableJobSummary][1] ||
			name != "summary" && changed[state.TableJobVersion][0] == changed[state.TableJobVersion][1] {
			t.Errorf("after a change of the %s the indexes of tables were and are %v", name, changed)
		}
	}
}

// wakened returns a channel that is closed if one of the watched channels is.
func wakened(ws memdb.WatchSet) <-chan struct{} {
	out := make(chan struct{})
	for ch := range ws {
		select {
		case <-ch:
			close(out)
			return out
		default:
		}
	}
	return out
}
