package server_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// largeArchive returns an archive of jobs with ten allocations each and a state of the given
// size.
func largeArchive(b *testing.B, size int) []byte {
	b.Helper()
	var stream bytes.Buffer
	out := fsm.NewRecordWriter(&stream)
	put := func(kind byte, row any) {
		if err := out.Write(kind, row); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Header(); err != nil {
		b.Fatal(err)
	}
	for n := 0; stream.Len() < size; n++ {
		index := uint64(100 + n)
		job := servertest.ServiceJob(fmt.Sprint("job-", nomad.NewID()))
		job.Namespace, job.NodePool, job.Region, job.CreateIndex, job.ModifyIndex = "default", "default", "global", index, index
		job.Status, job.SubmitTime = nomad.JobStatusRunning, time.Now().UnixNano()
		put(1, job)
		put(9, job)
		for i := range 10 {
			put(4, &nomad.Allocation{ID: nomad.NewID(), Namespace: "default", Job: job, JobID: job.ID, TaskGroup: "g", NodeID: nomad.NewID(),
				EvalID: nomad.NewID(),
				Name:   nomad.AllocName(job.ID, "g", uint(i)), ClientStatus: nomad.AllocClientStatusRunning, DesiredStatus: nomad.AllocDesiredStatusRun,
				CreateIndex: index, ModifyIndex: index, AllocModifyIndex: index, CreateTime: time.Now().UnixNano(),
				SignedIdentities: map[string]string{"t": nomad.NewID() + nomad.NewID()},
				TaskStates: map[string]*nomad.TaskState{"t": {State: nomad.TaskStateRunning,
					Events: []*nomad.TaskEvent{{Type: "Received"}, {Type: "Started", DisplayMessage: "Task started by client"}}}}})
		}
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	var raw bytes.Buffer
	meta := &raft.SnapshotMeta{Version: 1, ID: "1-100000-1", Index: 100_000, Term: 1, Size: int64(stream.Len())}
	if _, err := snapshot.Write(&raw, meta, &stream); err != nil {
		b.Fatal(err)
	}
	return raw.Bytes()
}

// BenchmarkRestore restores a state of 100 MB into a server with its data on disk, from the
// first byte sent until the leader is ready again.
func BenchmarkRestore(b *testing.B) {
	const size = 100 << 20
	raw := largeArchive(b, size)
	s, _ := servertest.Start(b, func(c *server.Config) { c.DataDir = b.TempDir() })
	b.SetBytes(size)
	b.ReportMetric(float64(len(raw))/(1<<20), "archive-MiB")
	for b.Loop() {
		if err := servertest.Restore(b, servertest.RestoreStream(b, s), raw, "EOF"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSave saves a state of 100 MB.
func BenchmarkSave(b *testing.B) {
	const size = 100 << 20
	s, _ := servertest.Start(b, func(c *server.Config) { c.DataDir = b.TempDir() })
	if err := servertest.Restore(b, servertest.RestoreStream(b, s), largeArchive(b, size), "EOF"); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		servertest.Save(b, s)
	}
}
