package fsm_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// BenchmarkReadSnapshot reads a snapshot of jobs with ten allocations each.
func BenchmarkReadSnapshot(b *testing.B) {
	const jobs, perJob = 1000, 10
	var stream bytes.Buffer
	out := fsm.NewRecordWriter(&stream)
	put := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	put(out.Header())
	for i := range uint64(jobs) {
		job := &nomad.Job{ID: fmt.Sprint("job-", i), Name: "job", Namespace: "default", Region: "global", Type: nomad.JobTypeBatch,
			CreateIndex: i + 9, ModifyIndex: i + 9,
			TaskGroups: []*nomad.TaskGroup{{Name: "group", Count: 1,
				Tasks: []*nomad.Task{{Name: "task", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"}}}}}}
		jobrules.Canonicalize(job)
		put(out.Write(1, job))
		for range perJob {
			put(out.Write(4, &nomad.Allocation{ID: nomad.NewID(), Namespace: "default", JobID: job.ID, Job: job, TaskGroup: "group",
				NodeID:     nomad.NewID(),
				TaskStates: map[string]*nomad.TaskState{"task": {State: "running", Events: []*nomad.TaskEvent{{Type: "Started"}}}}}))
		}
	}
	put(out.Flush())
	b.SetBytes(int64(stream.Len()))
	b.ReportAllocs()
	used := -cpuTime(b)
	for b.Loop() {
		if _, err := fsm.ReadSnapshot(bytes.NewReader(stream.Bytes()), slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
	}
	used += cpuTime(b)
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
}
