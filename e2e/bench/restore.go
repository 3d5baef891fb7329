package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

const (
	restoredSize  = 100 << 20
	restoreTarget = 10 * time.Second
	perJob        = 10 // allocations of each job
)

// restoreSnapshot restores an archive of 100 MB on three servers over HTTP. It measures the time
// until the response, and until every server returns a restored job.
func restoreSnapshot(ctx context.Context, b *bench) (string, bool, error) {
	archive := filepath.Join(b.dir, "state.snap")
	last, err := writeArchive(archive)
	if err != nil {
		return "", false, fmt.Errorf("write an archive: %w", err)
	}
	s, err := b.servers(ctx, b.serverConfig())
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	var pids []int
	for _, a := range s.all {
		pids = append(pids, a.Pid())
	}
	var elapsed, everywhere time.Duration
	used := -cpuTime(pids...)
	err = b.profiled(ctx, s.addresses(), profile{"restore", restoreTarget}, func() error {
		began := time.Now()
		if err := upload(ctx, s.all[0].Address()+"/v1/operator/snapshot", archive); err != nil {
			return err
		}
		elapsed = time.Since(began)
		err := restoredEverywhere(ctx, s, last)
		everywhere = time.Since(began)
		return err
	})
	used += cpuTime(pids...)
	return fmt.Sprintf("%.1f s, on all servers in %.1f s (%.1f s of CPU)", elapsed.Seconds(), everywhere.Seconds(), used.Seconds()),
		everywhere <= restoreTarget, err
}

// restoredEverywhere waits until every server returns a job of the snapshot, and until a consistent
// read returns it.
func restoredEverywhere(ctx context.Context, s *servers, job string) error {
	return eventually(ctx, "a restored job is read from every server", func() error {
		for _, a := range s.all {
			if _, _, err := a.Client.Jobs().Info(job, &api.QueryOptions{AllowStale: true}); err != nil {
				return err
			}
		}
		_, _, err := s.all[0].Client.Jobs().Info(job, nil)
		return err
	})
}

// upload sends a file as the body of a PUT request.
func upload(ctx context.Context, url, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, f)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("restore: %s: %s", resp.Status, said)
	}
	return err
}

// writeArchive writes an archive of 100 MB with jobs and their allocations. It returns the ID of
// the last job.
func writeArchive(file string) (last string, err error) {
	state, err := os.Create(file + ".state")
	if err != nil {
		return "", err
	}
	defer os.Remove(state.Name())
	defer state.Close()
	out := fsm.NewRecordWriter(state)
	if err := out.Header(); err != nil {
		return "", err
	}
	for index := uint64(100); ; index++ {
		if last, err = writeJob(out, index); err != nil {
			return "", err
		}
		if at, err := state.Seek(0, io.SeekCurrent); err != nil || at >= restoredSize {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	size, err := state.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	if _, err := state.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = snapshot.Write(f, &raft.SnapshotMeta{Version: 1, ID: "1-100000-1", Index: 100_000, Term: 1, Size: size}, state)
	return last, err
}

// Types of the written records.
const (
	recordJob        = 1
	recordAlloc      = 4
	recordJobVersion = 9
)

// writeJob writes a job with its allocations.
func writeJob(out *fsm.RecordWriter, index uint64) (id string, err error) {
	job, err := storedJob(smallJob("restored-" + nomad.NewID()))
	if err != nil {
		return "", err
	}
	job.Namespace, job.NodePool, job.Region = "default", "default", "global"
	job.CreateIndex, job.ModifyIndex, job.JobModifyIndex = index, index, index
	job.Status, job.SubmitTime = nomad.JobStatusRunning, time.Now().UnixNano()
	for _, kind := range []byte{recordJob, recordJobVersion} {
		if err := out.Write(kind, job); err != nil {
			return "", err
		}
	}
	now, group, task := time.Now().UnixNano(), job.TaskGroups[0].Name, job.TaskGroups[0].Tasks[0].Name
	for i := range perJob {
		err := out.Write(recordAlloc, &nomad.Allocation{
			ID:               nomad.NewID(),
			Namespace:        "default",
			Job:              job,
			JobID:            job.ID,
			TaskGroup:        group,
			NodeID:           nomad.NewID(),
			EvalID:           nomad.NewID(),
			Name:             nomad.AllocName(job.ID, group, uint(i)),
			ClientStatus:     nomad.AllocClientStatusRunning,
			DesiredStatus:    nomad.AllocDesiredStatusRun,
			CreateIndex:      index,
			ModifyIndex:      index,
			AllocModifyIndex: index,
			CreateTime:       now,
			SignedIdentities: map[string]string{task: nomad.NewID() + nomad.NewID()},
			TaskStates: map[string]*nomad.TaskState{task: {State: nomad.TaskStateRunning,
				Events: []*nomad.TaskEvent{{Type: "Received"}, {Type: "Started", DisplayMessage: "Task started by client"}}}},
		})
		if err != nil {
			return "", err
		}
	}
	return job.ID, nil
}
