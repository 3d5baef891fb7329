package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// list requests the node's allocations with a blocking query, as a client of Nomad does.
func listAllocs(n *servertest.FakeNode, after uint64, wait time.Duration) (out message.NodeClientAllocsResponse, err error) {
	return listAllocsAfter(n, 0, after, wait)
}

// listAfter is list of a client whose last answer had count allocations.
func listAllocsAfter(n *servertest.FakeNode, count int, after uint64,
	wait time.Duration) (out message.NodeClientAllocsResponse, err error) {
	err = n.Call("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID, AllocCount: count,
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT, MinQueryIndex: after, MaxQueryTime: wait}}, &out)
	return out, err
}

// TestClientAllocs_Complete checks that every answer to a node lists all its allocations,
// including ended ones, because the node removes those that are not listed. The node's own
// reports do not wake its query.
func TestClientAllocs_Complete(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("first", 2))
	allocs := n.Allocs(2)
	n.Report(nomad.AllocClientStatusComplete, allocs[0])
	now, err := listAllocs(n, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	late, err := listAllocs(n, now.Index, time.Millisecond)
	if err != nil || late.Index != now.Index || fmt.Sprint(late.Allocs) != fmt.Sprint(now.Allocs) || len(late.Allocs) != 2 {
		t.Errorf("without a change the node has %v at %d, %v; want %v at %d", late.Allocs, late.Index, err, now.Allocs, now.Index)
	}

	type answer struct {
		list message.NodeClientAllocsResponse
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		list, err := listAllocs(n, now.Index, time.Minute)
		answers <- answer{list, err}
	}()
	n.Report(nomad.AllocClientStatusRunning, allocs[1])
	n.Report(nomad.AllocClientStatusComplete, allocs[1])
	servertest.Register(t, s, servertest.BatchJob("second", 1))
	got := <-answers
	if got.err != nil {
		t.Fatal(got.err)
	}
	var placed uint64
	for _, a := range servertest.Read[message.JobAllocationsResponse](t, s, "Job.Allocations", servertest.JobRequest("second")).Allocations {
		placed = a.CreateIndex
		if got.list.Allocs[a.ID] != a.CreateIndex {
			t.Errorf("the node got the new allocation at %d, want %d", got.list.Allocs[a.ID], a.CreateIndex)
		}
	}
	if len(got.list.Allocs) != 3 || placed == 0 || got.list.Index != placed {
		t.Errorf("the node got %d allocations at %d, want 3 at %d", len(got.list.Allocs), got.list.Index, placed)
	}
}

// TestClientAllocs_Deleted checks which changes between two queries of a client the next one returns without a wait:
// deletions if the client sends how many allocations it has, and never what happens on other nodes.
func TestClientAllocs_Deleted(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("first", 3))
	allocs := n.Allocs(3)
	before, err := listAllocs(n, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	reap := &message.EvalReapRequest{Allocs: []string{allocs[0].ID, allocs[1].ID}}
	if err := s.Apply(servertest.Context(t), message.EvalDeleteRequestType, reap); err != nil {
		t.Fatal(err)
	}
	other := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("elsewhere", 1)
	job.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.id}", RTarget: other.Node.ID, Operand: "="}}
	servertest.Register(t, s, job)
	other.Allocs(1)
	for name, c := range map[string]struct {
		count int
		wakes bool
	}{
		"Nomad's client":         {0, false},
		"had the deleted ones":   {3, true},
		"had one of the deleted": {2, true},
		"has what is left":       {1, false},
	} {
		after, err := listAllocsAfter(n, c.count, before.Index, time.Millisecond)
		if err != nil || len(after.Allocs) != 1 || after.Index > before.Index != c.wakes {
			t.Errorf("%s: %d allocations at %d after %d, %v; want 1, a higher index = %t", name, len(after.Allocs), after.Index, before.Index,
				err, c.wakes)
		}
	}
}

// An update that arrives after the end of its allocation does not let it run again: the network may deliver it after
// its repetition.
func TestUpdateAlloc_Late(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("j", 2))
	allocs := n.Allocs(2)
	want := map[string]string{allocs[0].ID: nomad.AllocClientStatusComplete, allocs[1].ID: nomad.AllocClientStatusFailed}
	for _, a := range allocs {
		n.Report(nomad.AllocClientStatusRunning, a)
		n.Report(want[a.ID], a)
		n.Report(nomad.AllocClientStatusRunning, a)
		n.Report(nomad.AllocClientStatusPending, a)
	}
	for _, a := range n.Allocs(2) {
		if end := want[a.ID]; end != "" && a.ClientStatus != end {
			t.Errorf("the allocation is %s, want %s", a.ClientStatus, end)
		}
	}
}

// The health in an earlier deployment does not replace that in the current one.
func TestUpdateAlloc_EarlierDeployment(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("j", 1))
	alloc := n.Allocs(1)[0]
	for _, c := range []struct {
		deployment string
		healthy    bool
	}{{"", true}, {"earlier", false}} {
		update := &nomad.Allocation{ID: alloc.ID, NodeID: alloc.NodeID, ClientStatus: nomad.AllocClientStatusRunning, DeploymentID: c.deployment,
			DeploymentStatus: &nomad.AllocDeploymentStatus{Healthy: &c.healthy}}
		n.Must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{update}, WriteRequest: n.Write(n.JWT)},
			&message.GenericResponse{})
		if d := n.Allocs(1)[0].DeploymentStatus; d == nil || d.Healthy == nil || !*d.Healthy {
			t.Errorf("after the health in deployment %q the allocation has %+v, want healthy", c.deployment, d)
		}
	}
}

// A numbered update that arrives after a newer one of the same agent is rejected. Another agent begins anew.
func TestUpdateAlloc_Order(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("j", 1))
	alloc := n.Allocs(1)[0]
	send := func(session string, number uint64, status string) error {
		return n.Call("Node.UpdateAlloc", &message.AllocUpdateRequest{Session: session, Number: number,
			Alloc: []*nomad.Allocation{{ID: alloc.ID, NodeID: alloc.NodeID, ClientStatus: status}}, WriteRequest: n.Write(n.JWT)},
			&message.GenericResponse{})
	}
	for _, c := range []struct {
		session string
		number  uint64
		status  string
		want    string
		after   string
	}{
		{"first", 1, nomad.AllocClientStatusPending, "", nomad.AllocClientStatusPending},
		{"first", 3, nomad.AllocClientStatusRunning, "", nomad.AllocClientStatusRunning},
		{"first", 2, nomad.AllocClientStatusPending, "update 2 of the node's allocations arrived after update 3", nomad.AllocClientStatusRunning},
		{"first", 3, nomad.AllocClientStatusRunning, "", nomad.AllocClientStatusRunning},
		{"", 0, nomad.AllocClientStatusPending, "", nomad.AllocClientStatusPending},
		{"second", 1, nomad.AllocClientStatusRunning, "", nomad.AllocClientStatusRunning},
	} {
		err := send(c.session, c.number, c.status)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("update %d of %q: %v, want %q", c.number, c.session, err, c.want)
		}
		if is := n.Allocs(1)[0].ClientStatus; is != c.after {
			t.Errorf("after update %d of %q the allocation is %s, want %s", c.number, c.session, is, c.after)
		}
	}
}
