package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// versionStatuses returns the versions of job "b" with their statuses, newest first.
func versionStatuses(t *testing.T, s *server.Server) string {
	t.Helper()
	out := ""
	for _, v := range servertest.Read[message.JobVersionsResponse](t, s, "Job.GetJobVersions",
		&message.JobVersionsRequest{JobID: "b", QueryOptions: servertest.Global}).Versions {
		out += fmt.Sprintf("%d:%s ", v.Version, v.Status)
	}
	return out
}

// hasStatuses waits until the versions of job "b" have the statuses.
func hasStatuses(t *testing.T, s *server.Server, want string) {
	t.Helper()
	testpace.Until(t, "versions "+want, func() bool { return versionStatuses(t, s) == want })
}

// The current version has the status of the job, and the older versions are dead (hashicorp/nomad#24957).
func TestVersions_Status(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	expect := func(want string) {
		t.Helper()
		servertest.Eventually(t, func() bool {
			job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("b")).Job
			return versionStatuses(t, s) == fmt.Sprintf(want, job.Status)
		})
	}
	n.Report(nomad.AllocClientStatusRunning, n.Allocs(1)...)
	hasStatuses(t, s, "0:running ")

	servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister", &message.JobDeregisterRequest{JobID: "b"})
	n.Report(nomad.AllocClientStatusComplete, n.Allocs(1)...)
	hasStatuses(t, s, "1:dead 0:dead ")

	servertest.Register(t, s, servertest.BatchJob("b", 1))
	hasStatuses(t, s, "2:running 1:dead 0:dead ")

	tag := &message.JobApplyTagRequest{JobID: "b", Name: "kept", Tag: &nomad.JobVersionTag{Name: "kept"}, Version: 0,
		WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}}
	if err := s.Call(servertest.Context(t), "Job.TagVersion", tag, nil); err != nil {
		t.Fatal(err)
	}
	expect("2:%s 1:dead 0:dead ")
	servertest.Read[message.JobRegisterResponse](t, s, "Job.Revert",
		&message.JobRevertRequest{JobID: "b", JobVersion: 0, WriteRequest: tag.WriteRequest})
	expect("3:%s 2:dead 1:dead 0:dead ")
}

// A blocking query for the versions of a job returns when the status of the job changes.
func TestVersions_StatusWakesReaders(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	n.Report(nomad.AllocClientStatusRunning, n.Allocs(1)...)
	hasStatuses(t, s, "0:running ")
	before := servertest.Read[message.JobVersionsResponse](t, s, "Job.GetJobVersions",
		&message.JobVersionsRequest{JobID: "b", QueryOptions: servertest.Global})
	n.Report(nomad.AllocClientStatusComplete, n.Allocs(1)...)
	for last := before.Index; ; { // it is pending as long as an evaluation is
		now := servertest.Read[message.JobVersionsResponse](t, s, "Job.GetJobVersions", &message.JobVersionsRequest{JobID: "b",
			QueryOptions: message.QueryOptions{Region: "global", MinQueryIndex: last, MaxQueryTime: time.Minute}})
		if now.Index <= last {
			t.Fatalf("no answer after index %d: status = %q", last, now.Versions[0].Status)
		}
		if last = now.Index; now.Versions[0].Status == nomad.JobStatusDead {
			return
		}
	}
}
