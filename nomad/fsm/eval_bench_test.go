package fsm_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// BenchmarkEvaluated applies a worker's result for a job that cannot be placed: a blocked
// evaluation, and the completion of this one. Eight are applied at once.
func BenchmarkEvaluated(b *testing.B) {
	f := fsm.New(state.New(slog.New(slog.DiscardHandler)), nil, slog.New(slog.DiscardHandler))
	index := uint64(10)
	write := func(evals ...*nomad.Evaluation) *raft.Log {
		index++
		data, err := codec.EncodeCommand(message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: evals})
		if err != nil {
			b.Fatal(err)
		}
		return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data, AppendedAt: time.Now()}
	}
	evaluation := func(job, status string) *nomad.Evaluation {
		return &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Type: nomad.JobTypeBatch, Priority: 50, JobID: job, Status: status}
	}
	b.ReportAllocs()
	used := -cpuTime(b)
	for n := 0; n < b.N; n += 8 {
		b.StopTimer()
		used += cpuTime(b)
		var entries []*raft.Log
		for range 8 {
			index++
			f.Apply(registration(b, index))
			job := fmt.Sprintf("job-%d-%d", index%16, index/16)
			done := evaluation(job, nomad.EvalStatusComplete)
			done.QueuedAllocations = map[string]int{"group": 1}
			entries = append(entries, write(evaluation(job, nomad.EvalStatusBlocked)), write(done))
		}
		used -= cpuTime(b)
		b.StartTimer()
		for _, answer := range f.ApplyBatch(entries) {
			if err, failed := answer.(error); failed {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64((used+cpuTime(b)).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
