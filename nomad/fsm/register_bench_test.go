package fsm_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	events "github.com/open-nomad/open-nomad/nomad/stream"
)

// registration returns the log entry that registers a small job.
func registration(b testing.TB, index uint64) *raft.Log {
	b.Helper()
	job := &nomad.Job{ID: fmt.Sprintf("job-%d-%d", index%16, index/16), Name: "job", Namespace: "default", Region: "global",
		Type: nomad.JobTypeBatch,
		TaskGroups: []*nomad.TaskGroup{{Name: "group", Count: 1,
			Tasks: []*nomad.Task{{Name: "task", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"}}}}}}
	jobrules.Canonicalize(job)
	data, err := codec.EncodeCommand(message.JobRegisterRequestType, &message.JobRegisterRequest{Job: job,
		Eval: &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Priority: 50, Type: job.Type,
			TriggeredBy: nomad.EvalTriggerJobRegister, JobID: job.ID, Status: nomad.EvalStatusPending},
		WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}})
	if err != nil {
		b.Fatal(err)
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data, AppendedAt: time.Now()}
}

// BenchmarkRegister applies job registrations to a large state, singly and in batches of eight,
// as every server does. It runs with events that nobody reads, and without events.
func BenchmarkRegister(b *testing.B) {
	work := broker.New(broker.Config{})
	observer := broker.NewObserver(work, broker.NewBlocked(work), func(string) (string, bool) { return "", false },
		func(nomad.NamespacedID) bool { return false })
	b.Run("plain", func(b *testing.B) { benchmarkRegister(b, observer) })
	b.Run("events", func(b *testing.B) {
		benchmarkRegister(b, struct {
			*broker.Observer
			*events.Broker
		}{observer, events.New(events.DefaultSize)})
	})
}

func benchmarkRegister(b *testing.B, observer fsm.Observer) {
	f := fsm.New(state.New(slog.New(slog.DiscardHandler)), observer, slog.New(slog.DiscardHandler))
	index := uint64(10)
	entries := make([]*raft.Log, 10_000)
	fill := func() {
		for i := range entries {
			index++
			entries[i] = registration(b, index)
		}
	}
	for _, together := range []int{1, 8} {
		b.Run(fmt.Sprint(together), func(b *testing.B) {
			b.ReportAllocs()
			used := -cpuTime(b)
			for n := 0; n < b.N; n += together {
				if n%len(entries) == 0 {
					b.StopTimer()
					used += cpuTime(b)
					fill()
					used -= cpuTime(b)
					b.StartTimer()
				}
				at := n % len(entries)
				for _, answer := range f.ApplyBatch(entries[at : at+together]) {
					if err, failed := answer.(error); failed {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64((used+cpuTime(b)).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of this process. On a busy machine, elapsed time is not a useful
// measure.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
