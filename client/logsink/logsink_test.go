package logsink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// recorder is a sink that keeps lines.
type recorder struct {
	mu    sync.Mutex
	lines []string
	fail  error // of each call
	calls int
	most  int // lines of the longest batch
}

func (r *recorder) Send(_ context.Context, batch []logsink.Record) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.most = max(r.most, len(batch))
	if r.fail != nil {
		return 0, r.fail
	}
	for _, b := range batch {
		kind := "out "
		if b.Stderr {
			kind = "err "
		}
		r.lines = append(r.lines, kind+string(b.Line))
	}
	return 0, nil
}

func (r *recorder) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *recorder) attempts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// logOf is the log of a task in the directory of an allocation.
type logOf struct {
	alloc   *nomad.Allocation
	Dir     string
	Subject logsink.Subject
}

// follow lets a set copy the log to a sink.
func (l logOf) follow(s *logsink.Set, sink string) error {
	return s.Follow(l.alloc, "t", l.Dir, []string{sink})
}

// source returns the log of a task.
func source(t *testing.T) logOf {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "alloc-id")
	if err := os.MkdirAll(filepath.Join(dir, "alloc/logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	return logOf{alloc: &nomad.Allocation{ID: "alloc-id", Name: "web.g[0]", Namespace: "default", JobID: "web", TaskGroup: "g",
		NodeID: "node-id"}, Dir: dir,
		Subject: logsink.Subject{Namespace: "default", Job: "web", Group: "g", Alloc: "alloc-id", AllocName: "web.g[0]", Task: "t",
			Node: "node-id"}}
}

// write appends to the file of a log.
func write(t *testing.T, src logOf, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(src.Dir, "alloc/logs", name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// run runs a set of one sink until stop is called.
func run(t *testing.T, sink logsink.Sink) (s *logsink.Set, stop func()) {
	t.Helper()
	s = logsink.NewSet(map[string]logsink.Sink{"rec": sink}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return s, stop
}

func expect(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	testpace.Until(t, fmt.Sprintf("%d lines", len(want)), func() bool { return len(r.all()) >= len(want) })
	got := r.all()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the sink got %q, want %q", got, want)
	}
}

// Lines reach the sink across rotations and restarts of the agent, once each.
func TestCopies(t *testing.T) {
	src, rec := source(t), &recorder{}
	s, stop := run(t, rec)
	follow := func(s *logsink.Set) {
		t.Helper()
		if err := src.follow(s, "rec"); err != nil {
			t.Fatal(err)
		}
	}
	write(t, src, "t.stdout.0", "a\nb\nhalf")
	write(t, src, "t.stderr.0", "problem\n")
	follow(s)
	follow(s) // as after a restart of the task
	expect(t, rec, "out a", "out b", "err problem")
	write(t, src, "t.stdout.0", " and ")
	write(t, src, "t.stdout.1", "half\nc\n") // rotated within a line
	expect(t, rec, "out a", "out b", "err problem", "out half and half", "out c")
	stop()

	write(t, src, "t.stdout.1", "d\n")
	if err := os.Remove(filepath.Join(src.Dir, "alloc/logs/t.stdout.0")); err != nil {
		t.Fatal(err)
	}
	s, _ = run(t, rec)
	follow(s)
	want := []string{"out a", "out b", "err problem", "out half and half", "out c", "out d"}
	expect(t, rec, want...)
	// The end of the log is copied without its newline.
	write(t, src, "t.stdout.1", "last")
	s.Finish("alloc-id", "t")
	expect(t, rec, append(want, "out last")...)
}

// slow is a sink that answers after it has kept the lines, and whose answer is lost if the request ends before.
type slow struct {
	*recorder
	kept, answer chan struct{}
}

func (s slow) Send(ctx context.Context, batch []logsink.Record) (int, error) {
	if _, err := s.recorder.Send(ctx, batch); err != nil {
		return 0, err
	}
	s.kept <- struct{}{}
	select {
	case <-s.answer:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// An agent that ends receives the answer to its last request, so that the next agent does not send the lines again. A sink
// that does not answer delays the end by about a second.
func TestEndWaitsForTheAnswer(t *testing.T) {
	for name, answers := range map[string]bool{"answers": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			src, rec := source(t), slow{&recorder{}, make(chan struct{}, 1), make(chan struct{})}
			s, stop := run(t, rec)
			write(t, src, "t.stdout.0", "a\n")
			if err := src.follow(s, "rec"); err != nil {
				t.Fatal(err)
			}
			<-rec.kept
			if answers {
				time.AfterFunc(100*time.Millisecond, func() { close(rec.answer) })
			}
			began := time.Now()
			stop()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the end took %s", took)
			}
			write(t, src, "t.stdout.0", "b\n")
			s, _ = run(t, rec.recorder)
			if err := src.follow(s, "rec"); err != nil {
				t.Fatal(err)
			}
			want := []string{"out a", "out b"}
			if !answers {
				want = append(want, "out a")
			}
			expect(t, rec.recorder, want...)
		})
	}
}

// A sink that does not accept lines gets them again, and one that is full does not keep the others from
// theirs.
func TestRetries(t *testing.T) {
	src, rec := source(t), &recorder{fail: errors.New("full")}
	s, _ := run(t, rec)
	write(t, src, "t.stdout.0", "a\n")
	if err := src.follow(s, "rec"); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the sink is tried twice", func() bool { return rec.attempts() >= 2 })
	rec.set(nil)
	expect(t, rec, "out a")
	if err := src.follow(s, "other"); !errors.Is(err, logsink.ErrUnknown) {
		t.Errorf("Follow() to an unknown sink = %v", err)
	}
}

// A line without an end is broken, and a large log is read in parts.
func TestLargeLogs(t *testing.T) {
	src, rec := source(t), &recorder{}
	s, _ := run(t, rec)
	write(t, src, "t.stdout.0", strings.Repeat("x", 200_000)+"\n"+strings.Repeat(strings.Repeat("y", 99)+"\n", 5000))
	if err := src.follow(s, "rec"); err != nil {
		t.Fatal(err)
	}
	s.Finish("alloc-id", "t")
	testpace.Until(t, "all lines", func() bool { return len(rec.all()) >= 5004 })
	got := rec.all()
	if n := strings.Count(strings.Join(got, ""), "x"); n != 200_000 || len(got[0]) != 4+64<<10 {
		t.Errorf("the long line came with %d bytes, first %d", n, len(got[0]))
	}
	for _, line := range got[4:] {
		if line != "out "+strings.Repeat("y", 99) {
			t.Fatalf("line %q", line)
		}
	}
	if len(got) != 5004 {
		t.Errorf("%d lines, want 5004", len(got))
	}
}

// Empty lines cost a sink much more memory than the log: a batch has a limited number of them.
func TestManyLines(t *testing.T) {
	const lines, most = 5000, 1024
	src, rec := source(t), &recorder{}
	s, _ := run(t, rec)
	write(t, src, "t.stdout.0", strings.Repeat("\n", lines)+"last")
	if err := src.follow(s, "rec"); err != nil {
		t.Fatal(err)
	}
	s.Finish("alloc-id", "t")
	expect(t, rec, append(slices.Repeat([]string{"out "}, lines), "out last")...)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.most > most {
		t.Errorf("a batch has %d lines, want at most %d", rec.most, most)
	}
}

// A task that cannot be read, because its allocation is removed, ends its pumps.
func TestRemovedAllocation(t *testing.T) {
	src, rec := source(t), &recorder{}
	s, _ := run(t, rec)
	if err := os.RemoveAll(src.Dir); err != nil {
		t.Fatal(err)
	}
	if err := src.follow(s, "rec"); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the pumps end", func() bool { return logsink.Pumps(s) == 0 })
}
