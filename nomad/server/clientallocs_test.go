package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// list asks what the node has, once there is something after an index.
func (n *fakeNode) list(after uint64, wait time.Duration) (out nomad.NodeClientAllocsResponse, err error) {
	err = n.call("Node.GetClientAllocs", &nomad.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID,
		QueryOptions: nomad.QueryOptions{Region: "global", AuthToken: n.jwt, MinQueryIndex: after, MaxQueryTime: wait}}, &out)
	return out, err
}

// TestClientAllocsAreWhole holds that every answer to a node lists all it has, those that
// ended too: what is not listed is removed there. What the node itself reports is no
// news to it.
func TestClientAllocsAreWhole(t *testing.T) {
	s, _ := start(t, nil)
	n := join(t, s.RPCAddr())
	register(t, s, batchJob("first", 2))
	allocs := n.allocs(2)
	n.report(nomad.AllocClientStatusComplete, allocs[0])
	now, err := n.list(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	late, err := n.list(now.Index, time.Millisecond)
	if err != nil || late.Index != now.Index || fmt.Sprint(late.Allocs) != fmt.Sprint(now.Allocs) || len(late.Allocs) != 2 {
		t.Errorf("with nothing new the node has %v at %d, %v; want %v at %d", late.Allocs, late.Index, err, now.Allocs, now.Index)
	}

	type answer struct {
		list nomad.NodeClientAllocsResponse
		err  error
	}
	told := make(chan answer, 1)
	go func() {
		list, err := n.list(now.Index, time.Minute)
		told <- answer{list, err}
	}()
	n.report(nomad.AllocClientStatusRunning, allocs[1])
	n.report(nomad.AllocClientStatusComplete, allocs[1])
	register(t, s, batchJob("second", 1))
	got := <-told
	if got.err != nil {
		t.Fatal(got.err)
	}
	var placed uint64
	for _, a := range read[nomad.JobAllocationsResponse](t, s, "Job.Allocations", jobRead("second")).Allocations {
		placed = a.CreateIndex
		if got.list.Allocs[a.ID] != a.CreateIndex {
			t.Errorf("the node was told of the new allocation as of %d, want %d", got.list.Allocs[a.ID], a.CreateIndex)
		}
	}
	if len(got.list.Allocs) != 3 || placed == 0 || got.list.Index != placed {
		t.Errorf("the node was told of %d allocations at %d, want 3 at %d", len(got.list.Allocs), got.list.Index, placed)
	}
}
