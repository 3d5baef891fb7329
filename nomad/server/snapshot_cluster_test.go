package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

var stale = message.QueryOptions{Region: "global", AllowStale: true}

// own returns the state of one server.
func own(t *testing.T, m servertest.Member) string {
	t.Helper()
	raw, err := servertest.SaveWith(t, m.Server, stale)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(contents(t, raw))
}

// TestRestore_Cluster saves through one follower and restores through another.
func TestRestore_Cluster(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.DataDir = t.TempDir() })
	_, followers := servertest.Split(t, all)
	n := servertest.Join(t, followers[0].RPCAddr())
	servertest.Register(t, all[0].Server, servertest.ServiceJob("web"))
	first := n.Allocs(2)
	raw := servertest.Save(t, followers[0].Server) // saved by the leader, forwarded
	before := contents(t, raw)

	servertest.Register(t, all[0].Server, servertest.BatchJob("later", 1))
	n.Allocs(3)
	n.Report(nomad.AllocClientStatusRunning, first...) // an end is replaced 30 s later, which changes the jobs again
	list := servertest.Read[message.JobListResponse](t, all[0].Server, "Job.List", &message.JobListRequest{QueryOptions: servertest.Global})
	woken := make(chan message.JobListResponse, len(all))
	for _, m := range all {
		servertest.Eventually(t, func() bool {
			var out message.JobListResponse
			err := m.Call(servertest.Context(t), "Job.List", &message.JobListRequest{QueryOptions: stale}, &out)
			return err == nil && out.Index >= list.Index
		})
		go func() {
			q := stale
			q.MinQueryIndex, q.MaxQueryTime = list.Index, time.Minute
			var out message.JobListResponse
			m.Call(t.Context(), "Job.List", &message.JobListRequest{QueryOptions: q}, &out)
			woken <- out
		}()
	}
	refused := bytes.Clone(raw)
	refused[len(refused)/2] ^= 0x55
	changed := ""
	servertest.Eventually(t, func() bool { // the schedulers are done, and all servers have the result
		pending := servertest.Read[message.EvalListResponse](t, all[0].Server, "Eval.List",
			&message.EvalListRequest{FilterEvalStatus: nomad.EvalStatusPending, QueryOptions: servertest.Global})
		changed = own(t, all[0])
		return len(pending.Evaluations) == 0 && own(t, all[1]) == changed && own(t, all[2]) == changed
	})
	for what, bad := range map[string][]byte{"altered": refused, "cut": raw[:len(raw)-9]} {
		if err := servertest.Restore(t, servertest.RestoreStream(t, followers[1].Server), bad, "EOF"); err == nil {
			t.Fatalf("an archive that is %s is accepted", what)
		}
	}
	for _, m := range all {
		if own(t, m) != changed {
			t.Error("a refused archive changed a server")
		}
	}

	if err := servertest.Restore(t, servertest.RestoreStream(t, followers[1].Server), raw, "EOF"); err != nil {
		t.Fatal(err)
	}
	for range all {
		select {
		case out := <-woken:
			if len(out.Jobs) != 1 || out.Index <= list.Index {
				t.Errorf("a blocking query sees %d jobs at %d, waited from %d", len(out.Jobs), out.Index, list.Index)
			}
		case <-time.After(time.Minute):
			t.Fatal("a blocking query did not return")
		}
	}
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, nil)
	for _, m := range all {
		servertest.Eventually(t, func() bool {
			got, err := servertest.SaveWith(t, m.Server, stale)
			if err != nil {
				return false
			}
			after := contents(t, got)
			for _, name := range []string{"Job", "JobVersion", "JobSummary", "Alloc", "Deployment", "RootKey", "ClusterMetadata"} {
				if fmt.Sprint(after[name]) != fmt.Sprint(before[name]) {
					return false
				}
			}
			return true
		})
	}
	// The node gets the restored state, and its reports are accepted.
	var listed message.NodeClientAllocsResponse
	n.Must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID,
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT}}, &listed)
	if listed.RestoreIndex <= list.Index || len(listed.Allocs) != 2 {
		t.Errorf("the node has %d allocations, a restore at %d", len(listed.Allocs), listed.RestoreIndex)
	}
	n.Report(nomad.AllocClientStatusComplete, first...)
	// The leader is ready again: new jobs are placed.
	servertest.Register(t, followers[0].Server, servertest.BatchJob("next", 1))
	servertest.Eventually(t, func() bool {
		summary := servertest.Read[message.JobSummaryResponse](t, all[0].Server, "Job.Summary",
			&message.JobSummaryRequest{JobID: "next", QueryOptions: servertest.Global})
		return summary.JobSummary != nil && summary.JobSummary.Summary["g"].Starting == 1
	})
	// Another leader has the same state.
	servertest.TransferLeadership(t, all, followers[0])
	if got := servertest.Read[message.SingleJobResponse](t, followers[0].Server, "Job.GetJob",
		servertest.JobRequest("later")); got.Job != nil {
		t.Error("a job that is not in the archive exists again")
	}
	listed = message.NodeClientAllocsResponse{}
	n.Must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID,
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT}}, &listed)
	if listed.RestoreIndex <= list.Index {
		t.Error("another leader does not have the restored state")
	}
}

// TestSave_NoLeader uses the only remaining follower.
func TestSave_NoLeader(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.DataDir = t.TempDir() })
	leader, followers := servertest.Split(t, all)
	servertest.Register(t, leader.Server, servertest.BatchJob("b", 0))
	f := followers[0]
	servertest.Eventually(t, func() bool {
		var got message.SingleJobResponse
		err := f.Call(servertest.Context(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: stale}, &got)
		return err == nil && got.Job != nil
	})
	followers[1].Stop()
	leader.Stop()
	if _, err := servertest.SaveWith(t, f.Server, servertest.Global); err == nil {
		t.Error("a consistent save without a leader succeeds")
	}
	raw, err := servertest.SaveWith(t, f.Server, stale)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, raw); len(got["Job"]) != 1 {
		t.Errorf("the archive has %d jobs", len(got["Job"]))
	}
}

// TestRestore_UpstreamArchive restores an archive with every field of every record type,
// including unsupported features, and saves it again.
func TestRestore_UpstreamArchive(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.DataDir, c.Workers = t.TempDir(), -1 })
	_, followers := servertest.Split(t, all)
	raw, err := os.ReadFile("../snapshot/testdata/upstream.snap")
	if err != nil {
		t.Fatal(err)
	}
	if err := servertest.Restore(t, servertest.RestoreStream(t, followers[0].Server), raw, "EOF"); err != nil {
		t.Fatal(err)
	}
	want := contents(t, raw)
	if len(want) != 27 { // without the indexes
		t.Errorf("the archive has %d types of records", len(want))
	}
	got := contents(t, servertest.Save(t, followers[1].Server))
	settle(t, want, got)
	computed := []string{"NodePool", "CSIPlugin"} // the hash, and the record, which follows jobs and nodes that the archive lacks
	for name, rows := range want {
		for _, row := range rows {
			if !slices.Contains(computed, name) && !slices.Contains(got[name], row) {
				t.Errorf("%s is lost or modified:\n%s\n%s", name, row, got[name])
			}
		}
	}
	again := contents(t, servertest.Save(t, followers[0].Server))
	settle(t, again)
	if fmt.Sprint(got) != fmt.Sprint(again) {
		t.Error("two saves differ")
	}
}

// settle removes the fields that the leader writes after a restore, and those that are computed again. The archive has a node
// whose drain is past its deadline, and a volume with the claims of allocations that do not exist. Servers of Nomad 2.0 leave
// the allocations of a volume out.
func settle(t *testing.T, archives ...map[string][]string) {
	t.Helper()
	for _, records := range archives {
		records["Node"] = without(t, records["Node"], "DrainStrategy", "LastDrain", "Events", "StatusUpdatedAt", "ModifyIndex")
		records["CSIVolume"] = without(t, records["CSIVolume"], "ReadAllocs", "WriteAllocs", "ModifyIndex", "ModifyTime")
	}
}

// without returns records without some fields.
func without(t *testing.T, records []string, fields ...string) (out []string) {
	t.Helper()
	for _, text := range records {
		var record map[string]any
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		for _, name := range fields {
			delete(record, name)
		}
		rest, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(rest))
	}
	return out
}
