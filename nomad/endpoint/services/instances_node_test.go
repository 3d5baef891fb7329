package services_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// An instance has the status of its node, and for readers of nodes its metadata. A query of a service ends when a node of it
// changes.
func TestInstances_Node(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	n.Node.Meta = map[string]string{"rack": "r1"}
	if err := n.Register(n.JWT); err != nil {
		t.Fatal(err)
	}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servingJob("j", 1)}, nil)
	if err := upsertServices(n, registration(n.Allocs(1)[0], "web")); err != nil {
		t.Fatal(err)
	}
	read := func(secret string, index uint64) message.ServiceInstancesResponse {
		t.Helper()
		req := &message.ServiceInstancesRequest{ServiceName: "web", QueryOptions: message.QueryOptions{Region: "global",
			Namespace: "default", MinQueryIndex: index, MaxQueryTime: time.Minute}}
		out := servertest.ReadWith[message.ServiceInstancesResponse](g, secret, "ServiceRegistration.Instances", req)
		if len(out.Instances) != 1 {
			t.Fatalf("%d instances", len(out.Instances))
		}
		return out
	}
	jobs := g.TokenWith(`namespace "default" { policy = "read" }`)
	nodes := g.TokenWith(`namespace "default" { policy = "read" } node { policy = "read" }`)
	first := read(jobs, 0)
	in := first.Instances[0]
	servertest.Equal(t, "status of the node", in.NodeStatus, nomad.NodeStatusReady)
	servertest.Equal(t, "name of the node", in.NodeName, n.Node.Name)
	servertest.Equal(t, "metadata without node:read", len(in.NodeMeta), 0)
	servertest.Equal(t, "metadata with node:read", read(nodes, 0).Instances[0].NodeMeta["rack"], "r1")
	ended := make(chan uint64, 1)
	go func() { ended <- read(jobs, first.Index).Index }()
	g.Must("Node.UpdateEligibility", &message.NodeUpdateEligibilityRequest{NodeID: n.Node.ID,
		Eligibility: nomad.NodeSchedulingIneligible}, nil)
	second := <-ended
	if second <= first.Index {
		t.Errorf("the query ended with index %d after %d", second, first.Index)
	}
	// The registration outlives the purge of its node for a moment.
	go func() { ended <- read(jobs, second).Index }()
	if err := g.Server.Apply(servertest.Context(t), message.NodeBatchDeregisterRequestType,
		&message.NodeBatchDeregisterRequest{NodeIDs: []string{n.Node.ID}}); err != nil {
		t.Fatal(err)
	}
	if index := <-ended; index <= second {
		t.Errorf("the query ended with index %d after %d: a client does not notice the purge", index, second)
	}
	servertest.Equal(t, "status of the purged node", read(jobs, 0).Instances[0].NodeStatus, "")
}
