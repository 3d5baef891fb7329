package jobs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestPrivileged_ExplicitSurvives checks that a namespace with explicit privilege has it with another leader, after a
// restore, and when the leader changes afterwards. A job with an added privilege keeps it.
func TestPrivileged_ExplicitSurvives(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.Kinds = drivers.Table() })
	leader, followers := servertest.Split(t, all)
	write := message.WriteRequest{Region: "global", Namespace: "team"}
	call := func(method string, req rpc.Request) error {
		return servertest.Retry(t, func(ctx context.Context) error { return all[0].Call(ctx, method, req, nil) })
	}
	namespace := func(privileged string) {
		t.Helper()
		if err := call("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{WriteRequest: write,
			Namespaces: []*nomad.Namespace{{Name: "team", Privileged: privileged}}}); err != nil {
			t.Fatal(err)
		}
	}
	register := func(id string) error {
		j := privilegedJob(id)
		j.Namespace, j.TaskGroups[0].Tasks[0].Privileged = "team", false
		return call("Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: write})
	}
	check := func(when string) {
		t.Helper()
		if err := register("late"); err == nil || !strings.Contains(err.Error(), `remove privileged = "explicit" from namespace "team"`) {
			t.Errorf("%s: a job without the line: %v", when, err)
		}
		got := servertest.Read[message.SingleJobResponse](t, all[0].Server, "Job.GetJob", &message.JobSpecificRequest{JobID: "early",
			QueryOptions: message.QueryOptions{Region: "global", Namespace: "team"}})
		if got.Job == nil || !got.Job.TaskGroups[0].Tasks[0].Privileged {
			t.Errorf("%s: the job with an added privilege is %+v", when, got.Job)
		}
	}
	namespace("")
	if err := register("early"); err != nil {
		t.Fatal(err)
	}
	namespace(nomad.PrivilegedExplicit)
	check("before")
	servertest.TransferLeadership(t, all, followers[0])
	check("with another leader")
	archive := servertest.Save(t, followers[0].Server)
	namespace("")
	if err := register("late"); err != nil {
		t.Fatal(err)
	}
	if err := servertest.Restore(t, servertest.RestoreStream(t, followers[1].Server), archive, "EOF"); err != nil {
		t.Fatal(err)
	}
	check("after a restore")
	servertest.TransferLeadership(t, all, leader)
	check("with the first leader")
}
