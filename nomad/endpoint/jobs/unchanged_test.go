package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestRegister_StatusChanges checks that registering an unchanged job makes no new version while the servers write its
// status: each evaluation of a job without allocations changes it to dead.
func TestRegister_StatusChanges(t *testing.T) {
	s, _ := servertest.Start(t, withConsul)
	var first uint64
	for n := range 100 {
		var out message.JobRegisterResponse
		req := &message.JobRegisterRequest{Job: meshJob("bridge", sidecarOf(nil)), WriteRequest: message.WriteRequest{Region: "global",
			Namespace: "default"}}
		if err := s.Call(servertest.Context(t), "Job.Register", req, &out); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = out.JobModifyIndex
		}
		if out.JobModifyIndex != first {
			t.Fatalf("registration %d made a new version: index %d, then %d", n, first, out.JobModifyIndex)
		}
	}
}
