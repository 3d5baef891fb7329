package unserved

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// lines receives the lines of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A list is logged when it is new or when another server of another build joins. Without such
// servers there is no periodic list.
func TestWatcherLogsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		var store atomic.Pointer[state.Store]
		store.Store(state.New(quiet))
		var others []string // the watcher reads it only after moved or the interval
		moved, caughtUp := make(chan struct{}), make(chan struct{})
		logged := make(lines, 10)
		w := New(Config{Store: store.Load, CaughtUp: caughtUp, Moved: func() <-chan struct{} { return moved },
			Others: func() []string { return others }, Log: slog.New(slog.NewTextHandler(logged, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		index := uint64(100)
		register := func(id string) {
			index++
			_, err := store.Load().RegisterJob(index,
				&message.JobRegisterRequest{Job: &nomad.Job{ID: id, Namespace: "default", Multiregion: &nomad.Multiregion{}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when string, parts ...string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for len(logged) > 0 {
				got += <-logged
			}
			if len(parts) == 0 && got != "" || strings.Count(got, "\n") > 1 {
				t.Errorf("%s: %q is logged", when, got)
			}
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("%s: %q is logged, want %q", when, got, part)
				}
			}
		}
		move := func(names ...string) {
			others = names
			moved <- struct{}{}
		}

		expect("nothing is stored")
		register("a")
		close(caughtUp)
		expect("caught up", "level=WARN", `features="multiregion blocks of 1 job have no effect: each region runs its part independently"`)
		move()
		expect("a member of this build")
		register("b")
		time.Sleep(2 * listEvery)
		expect("no server of another build is there")
		move("x.global")
		expect("a server of another build", "multiregion blocks of 2 jobs", "servers_of_other_builds=x.global")
		move("x.global")
		expect("it failed and came back")
		register("c")
		expect("before the interval has passed")
		time.Sleep(listEvery)
		expect("after the interval", "multiregion blocks of 3 jobs", "x.global")
		move("x.global", "y.global")
		expect("a second server of another build", "multiregion blocks of 3 jobs", `"x.global, y.global"`)
		restored := state.NewRestore(quiet)
		add(t, restored, "Job", &nomad.Job{ID: "z", Namespace: "default", Multiregion: &nomad.Multiregion{}})
		store.Swap(restored.Finish()).Abandon()
		expect("after a restore", "multiregion blocks of 1 job")
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Run() = %v", err)
		}
	})
}

// Report logs a new list, which Run does not log again.
func TestReportBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New(slog.New(slog.DiscardHandler))
		logged := make(lines, 10)
		w := New(Config{Store: func() *state.Store { return store }, Moved: func() <-chan struct{} { return nil },
			Others: func() []string { return nil },
			Log:    slog.New(slog.NewTextHandler(logged, nil))})
		w.Report()
		if len(logged) > 0 {
			t.Errorf("nothing is stored, and %q is logged", <-logged)
		}
		if _, err := store.RegisterJob(101,
			&message.JobRegisterRequest{Job: &nomad.Job{ID: "a", Namespace: "default", Multiregion: &nomad.Multiregion{}}}); err != nil {
			t.Fatal(err)
		}
		w.Report()
		w.Report()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		if len(logged) != 1 || !strings.Contains(<-logged, "multiregion blocks of 1 job have no effect") {
			t.Errorf("%d more lines are logged, want one in all", len(logged))
		}
	})
}

// The list is computed again only after jobs changed.
func TestSentencesAreCached(t *testing.T) {
	store := state.New(slog.New(slog.DiscardHandler))
	w := New(Config{Store: func() *state.Store { return store }})
	register := func(index uint64, j *nomad.Job) {
		if _, err := store.RegisterJob(index, &message.JobRegisterRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	register(101, &nomad.Job{ID: "a", Namespace: "default", Multiregion: &nomad.Multiregion{}})
	first := w.Sentences()
	if _, err := store.UpsertNamespaces(102, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "x"}}}); err != nil {
		t.Fatal(err)
	}
	if again := w.Sentences(); &again[0] != &first[0] {
		t.Error("the list was computed again although no job changed")
	}
	register(103, &nomad.Job{ID: "b", Namespace: "default", Multiregion: &nomad.Multiregion{}})
	if got := w.Sentences(); len(got) != 1 ||
		got[0] != "multiregion blocks of 2 jobs have no effect: each region runs its part independently" {
		t.Errorf("Sentences() = %q", got)
	}
}

// TestWatcher_Served checks that features that the server supports are not listed.
func TestWatcher_Served(t *testing.T) {
	store := state.New(slog.New(slog.DiscardHandler))
	job := &nomad.Job{ID: "j", Namespace: "default", ConsulNamespace: "a", Multiregion: &nomad.Multiregion{}}
	if _, err := store.RegisterJob(100, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	w := New(Config{Store: func() *state.Store { return store }})
	if got := w.list(store.Snapshot()); len(got) != 2 {
		t.Errorf("without a configuration: %+v, want two features", got)
	}
	w.cfg.Served = func(*state.Snapshot) []string { return []string{"consul namespace"} }
	if got := w.list(store.Snapshot()); len(got) != 1 || got[0].Name != "multiregion" {
		t.Errorf("with Consul: %+v, want only multiregion", got)
	}
}
