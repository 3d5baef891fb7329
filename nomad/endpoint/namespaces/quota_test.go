package namespaces_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// quotaWorld is a cluster with a node and a quota for two namespaces.
type quotaWorld struct {
	t    *testing.T
	s    *server.Server
	node *servertest.FakeNode
}

func (w quotaWorld) call(method string, req, resp any) {
	w.t.Helper()
	servertest.Eventually(w.t, func() bool { return w.s.Call(servertest.Context(w.t), method, req, resp) == nil }) // there may be no leader
}

// usage returns the quota's usage and the running allocations, read together.
func (w quotaWorld) usage() (used, live int) {
	w.t.Helper()
	var allocs message.AllocListResponse
	w.call("Alloc.List", &message.AllocListRequest{QueryOptions: message.QueryOptions{Region: "global", Namespace: "*"}}, &allocs)
	for _, a := range allocs.Allocations {
		if a.DesiredStatus == nomad.AllocDesiredStatusRun && a.ClientStatus == nomad.AllocClientStatusPending {
			live++
		}
	}
	var usage message.SingleQuotaUsageResponse
	w.call("Quota.Usage", &message.QuotaSpecificRequest{Name: "q", QueryOptions: servertest.Global}, &usage)
	for _, l := range usage.Usage.Used {
		used = *l.RegionLimit.Allocs
	}
	return used, live
}

// waitFor waits for the allowed number of allocations and fails if there are more.
func (w quotaWorld) waitFor(want, most int) {
	w.t.Helper()
	servertest.Eventually(w.t, func() bool {
		used, live := w.usage()
		if used > most || live > most {
			w.t.Fatalf("%d allocations are counted and %d are live, %d are allowed", used, live, most)
		}
		return used == want && live == want
	})
}

// TestQuota_ManyJobs registers jobs concurrently at every server of a cluster. No more are
// placed than the quota allows. The others follow when those end, also after the leader was
// lost.
func TestQuota_ManyJobs(t *testing.T) {
	const jobs, most = 18, 6
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	w := quotaWorld{t: t, s: followers[0].Server, node: servertest.Join(t, followers[0].RPCAddr())}
	in := message.WriteRequest{Region: "global"}
	w.call("Quota.Upsert", &message.QuotaUpsertRequest{WriteRequest: in, Quotas: []*quota.Spec{
		{Name: "q", Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Resources{Allocs: new(most)}}}}}}, nil)
	for _, name := range []string{"a", "b"} {
		w.call("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{WriteRequest: in,
			Namespaces: []*nomad.Namespace{{Name: name, Quota: "q"}}}, nil)
	}
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			j := servertest.BatchJob(fmt.Sprint("j", i), 1)
			j.Namespace = []string{"a", "b"}[i%2]
			j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 1, MemoryMB: 10}
			servertest.Register(t, all[i%3].Server, j)
		})
	}
	wg.Wait()
	w.waitFor(most, most)
	w.finish(t, 0, most)
	w.waitFor(most, most)
	leader.Stop()
	w.finish(t, most, most)
	w.waitFor(most, most)
	w.finish(t, 2*most, most)
	w.waitFor(0, most)
}

// finish reports the end of all allocations of the node. before is the number that had already
// ended.
func (w quotaWorld) finish(t *testing.T, before, count int) {
	t.Helper()
	var running []*nomad.Allocation
	servertest.Eventually(t, func() bool {
		var list message.AllocListResponse
		w.call("Alloc.List", &message.AllocListRequest{QueryOptions: message.QueryOptions{Region: "global", Namespace: "*"}}, &list)
		running = nil
		for _, a := range list.Allocations {
			if a.ClientStatus == nomad.AllocClientStatusPending {
				running = append(running, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID})
			}
		}
		return len(list.Allocations) == before+count
	})
	if len(running) != count {
		t.Fatalf("%d allocations run, want %d", len(running), count)
	}
	var updates []*nomad.Allocation
	for _, a := range running {
		updates = append(updates, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: nomad.AllocClientStatusComplete})
	}
	servertest.Eventually(t, func() bool {
		return w.node.Call("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: updates, WriteRequest: w.node.Write(w.node.JWT)},
			&message.GenericResponse{}) == nil
	})
}
