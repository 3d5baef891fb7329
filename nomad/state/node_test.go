package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestRegisterNode(t *testing.T) {
	w := newWorld(t)
	c := w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{CreateNodePool: true,
		Node: &nomad.Node{ID: "n1", NodePool: "gpu", Status: "ready", StatusUpdatedAt: 50, IdentitySigningKeyID: "k1"}}))
	n := w.snap().Node(nil, "n1")
	if n.SchedulingEligibility != "eligible" || len(n.Events) != 1 || !n.Events[0].Timestamp.Equal(time.Unix(50, 0)) || len(c.Nodes) != 1 {
		t.Errorf("new node is %+v", n)
	}
	if p := w.snap().NodePool(nil, "gpu"); p == nil || p.NodeIdentityTTL != 24*time.Hour {
		t.Errorf("node pool is %+v", p)
	}
	created := n.CreateIndex
	w.ok(w.UpdateNodeDrain(w.next(), &message.NodeUpdateDrainRequest{NodeID: "n1", DrainStrategy: &nomad.DrainStrategy{}, UpdatedAt: 60}))
	w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{
		Node: &nomad.Node{ID: "n1", NodePool: "gpu", Status: "ready", NodeClass: "big", SchedulingEligibility: "eligible",
			Events: []*nomad.NodeEvent{{Message: "forged"}}}}))
	n = w.snap().Node(nil, "n1")
	if n.DrainStrategy == nil || n.SchedulingEligibility != "ineligible" || n.LastDrain == nil || n.NodeClass != "big" ||
		n.CreateIndex != created || n.IdentitySigningKeyID != "k1" || len(n.Events) != 1 || n.Events[0].Message == "forged" {
		t.Errorf("node that registered again is %+v", n)
	}
	if _, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{}}); err == nil {
		t.Error("a node without an ID is registered")
	}
}

func TestNodeStatus(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	set := func(status, key string) *nomad.Node {
		t.Helper()
		w.ok(w.UpdateNodeStatus(w.next(),
			&message.NodeUpdateStatusRequest{NodeID: "n1", Status: status, UpdatedAt: int64(w.index), IdentitySigningKeyID: key,
				NodeEvent: &nomad.NodeEvent{Message: status}}))
		return w.snap().Node(nil, "n1")
	}
	if n := set("ready", "k1"); n.LastMissedHeartbeatIndex != 0 || n.IdentitySigningKeyID != "k1" || n.StatusUpdatedAt != int64(w.index) {
		t.Errorf("node is %+v", n)
	}
	down := set("down", "")
	if down.LastMissedHeartbeatIndex != w.index || down.IdentitySigningKeyID != "k1" {
		t.Errorf("node that went down is %+v", down)
	}
	if n := set("disconnected", ""); n.LastMissedHeartbeatIndex != down.LastMissedHeartbeatIndex {
		t.Error("a node that is silent already missed another heartbeat")
	}
	w.place(w.job("j"), nil, "a1")
	w.report("a1", "running")
	reported := w.index
	w.report("a1", "complete")
	if n := w.snap().Node(nil, "n1"); n.LastAllocUpdateIndex != reported {
		t.Errorf("allocations were reported at %d, want %d: only the first report counts", n.LastAllocUpdateIndex, reported)
	}
	for range 12 {
		set("ready", "")
	}
	n := w.snap().Node(nil, "n1")
	if len(n.Events) != nomad.MaxRetainedNodeEvents || n.Events[9].CreateIndex != w.index || n.Events[0].CreateIndex != w.index-9 {
		t.Errorf("%d events are kept, the last of %d", len(n.Events), n.Events[len(n.Events)-1].CreateIndex)
	}
	if len(down.Events) != 3 || down.Events[2].Message != "down" {
		t.Error("a row was written to")
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	drain := func(s *nomad.DrainStrategy, eligible bool, by string) *nomad.Node {
		t.Helper()
		w.ok(w.UpdateNodeDrain(w.next(),
			&message.NodeUpdateDrainRequest{NodeID: "n1", DrainStrategy: s, MarkEligible: eligible, UpdatedAt: int64(w.index), UpdatedBy: by}))
		return w.snap().Node(nil, "n1")
	}
	if n := drain(nil, true, "me"); n.LastDrain != nil {
		t.Error("the end of no drain is remembered")
	}
	n := drain(&nomad.DrainStrategy{}, false, "me")
	if n.Ready() || n.LastDrain.Status != "draining" || n.LastDrain.AccessorID != "me" {
		t.Errorf("draining node is %+v", n.LastDrain)
	}
	began := n.LastDrain.StartedAt
	if _, err := w.UpdateNodeEligibility(w.next(), &message.NodeUpdateEligibilityRequest{NodeID: "n1", Eligibility: "eligible"}); err == nil {
		t.Error("a draining node is made eligible")
	}
	if n = drain(nil, true, "me"); !n.Ready() || n.LastDrain.Status != "canceled" || !n.LastDrain.StartedAt.Equal(began) {
		t.Errorf("after the drain the node has %+v", n.LastDrain)
	}
	drain(&nomad.DrainStrategy{}, false, "me")
	w.ok(w.UpdateNodeDrains(w.next(), &message.BatchNodeUpdateDrainRequest{Updates: map[string]*nomad.DrainUpdate{"n1": {}}, UpdatedAt: 99}))
	if n = w.snap().Node(nil, "n1"); n.Ready() || n.DrainStrategy != nil || n.LastDrain.Status != "complete" {
		t.Errorf("after the drain is complete the node has %+v", n.LastDrain)
	}
	w.ok(w.UpdateNodeEligibility(w.next(), &message.NodeUpdateEligibilityRequest{NodeID: "n1", Eligibility: "eligible"}))
	if !w.snap().Node(nil, "n1").Ready() {
		t.Error("the node is not eligible")
	}
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{IneligibleNodes: []string{"n1", "none"}, UpdatedAt: 5e9}))
	if n = w.snap().Node(nil, "n1"); n.Ready() || n.StatusUpdatedAt != 5 {
		t.Error("a node that rejects plans stays eligible")
	}
}

func TestNodePools(t *testing.T) {
	w := newWorld(t)
	upsert := func(p *nomad.NodePool) error {
		_, err := w.UpsertNodePools(w.next(), &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{p}})
		return err
	}
	remove := func(name string) error {
		_, err := w.DeleteNodePools(w.next(), &message.NodePoolDeleteRequest{Names: []string{name}})
		return err
	}
	if err := upsert(&nomad.NodePool{Name: "gpu", NodeIdentityTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	first := w.snap().NodePool(nil, "gpu")
	if err := upsert(&nomad.NodePool{Name: "gpu", Description: "x"}); err != nil {
		t.Fatal(err)
	}
	second := w.snap().NodePool(nil, "gpu")
	if first.NodeIdentityTTL != time.Hour || second.NodeIdentityTTL != 24*time.Hour || second.CreateIndex != first.CreateIndex ||
		string(first.Hash) == string(second.Hash) {
		t.Errorf("pools are %+v, %+v", first, second)
	}
	if upsert(&nomad.NodePool{Name: "all"}) == nil || remove("default") == nil || remove("none") == nil {
		t.Error("a built-in pool can change, or one that does not exist can go")
	}
	w.job("j", func(j *nomad.Job) { j.NodePool, j.Type = "gpu", nomad.JobTypeBatch })
	if remove("gpu") == nil {
		t.Error("a pool with a job can go")
	}
	w.finish()
	w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{ID: "n1", NodePool: "gpu"}}))
	if remove("gpu") == nil {
		t.Error("a pool with a node can go")
	}
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}}))
	if err := remove("gpu"); err != nil {
		t.Error(err)
	}
}

func TestRootKeys(t *testing.T) {
	w := newWorld(t)
	upsert := func(id string, s rootkey.State, rekey bool) error {
		_, err := w.UpsertRootKey(w.next(), &message.KeyringUpsertWrappedRootKeyRequest{Rekey: rekey,
			WrappedRootKeys: &rootkey.Key{KeyID: id, State: s, CreateTime: int64(w.index)}})
		return err
	}
	expect := func(when, want string) {
		t.Helper()
		got := ids(w.snap().RootKeys(nil), func(k *rootkey.Key) string { return k.KeyID + ":" + string(k.State) })
		if got != want {
			t.Errorf("%s: keys are %s, want %s", when, got, want)
		}
	}
	for _, step := range []struct {
		id    string
		state rootkey.State
		rekey bool
		fails bool
		want  string
	}{
		{"a", "active", false, false, "[a:active]"},
		{"b", "prepublished", false, false, "[a:active b:prepublished]"},
		{"c", "inactive", true, true, "[a:active b:prepublished]"},
		{"a", "active", true, true, "[a:active b:prepublished]"},
		{"c", "active", false, false, "[a:inactive b:prepublished c:active]"},
		{"d", "active", true, false, "[a:rekeying b:prepublished c:rekeying d:active]"},
		{"a", "inactive", false, false, "[a:inactive b:prepublished c:rekeying d:active]"},
		{"b", "active", false, false, "[a:inactive b:active c:rekeying d:inactive]"},
	} {
		if err := upsert(step.id, step.state, step.rekey); (err != nil) != step.fails {
			t.Errorf("UpsertRootKey(%s, %s, %t) = %v", step.id, step.state, step.rekey, err)
		}
		expect(fmt.Sprintf("after %s %s", step.id, step.state), step.want)
	}
	if k := w.snap().ActiveRootKey(nil); k.KeyID != "b" || k.CreateTime != 102 || k.CreateIndex != 102 || k.ModifyIndex != w.index {
		t.Errorf("active key is %+v", k)
	}
	w.ok(w.DeleteRootKey(w.next(), &message.KeyringDeleteRootKeyRequest{KeyID: "a"}))
	w.ok(w.DeleteRootKey(w.next(), &message.KeyringDeleteRootKeyRequest{KeyID: "a"}))
	expect("deleted", "[b:active c:rekeying d:inactive]")
}

func TestRootKeyInUse(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.place(j, func(a *nomad.Allocation) { a.SigningKeyID = "k1" }, "a1")
	w.node("n1")
	expect := func(when, key string, want bool) {
		t.Helper()
		if got := w.snap().RootKeyInUse(key); got != want {
			t.Errorf("%s: key %s in use is %t", when, key, got)
		}
	}
	expect("running", "k1", true)
	expect("running", "k", false)
	w.report("a1", "complete")
	expect("ended at the client only", "k1", true)
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: "a1"}}}))
	expect("ended", "k1", false)
	w.ok(w.UpdateNodeStatus(w.next(), &message.NodeUpdateStatusRequest{NodeID: "n1", Status: "down", IdentitySigningKeyID: "k2"}))
	expect("of a node", "k2", true)
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}}))
	expect("of a node that is gone", "k2", false)
}

func TestOperatorRows(t *testing.T) {
	w := newWorld(t)
	set := func(cas bool, seen uint64) bool {
		t.Helper()
		_, done, err := w.SetSchedulerConfig(w.next(),
			&message.SchedulerSetConfigRequest{CAS: cas, Config: nomad.SchedulerConfiguration{ModifyIndex: seen}})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if index, c := w.snap().SchedulerConfig(nil); index != 0 || c != nil {
		t.Errorf("scheduler configuration is %+v before it is set", c)
	}
	if set(true, 5) || !set(true, 0) || set(true, 5) {
		t.Error("compare and set does not compare")
	}
	index, c := w.snap().SchedulerConfig(nil)
	if c.SchedulerAlgorithm != nomad.SchedulerAlgorithmBinpack || index != c.ModifyIndex ||
		w.snap().TableIndex(state.TableSchedulerConf) != index {
		t.Errorf("scheduler configuration is %+v at %d", c, index)
	}
	if !set(true, index) || !set(false, 0) {
		t.Error("the configuration cannot be set")
	}
	w.ok(w.SetClusterMetadata(w.next(), &nomad.ClusterMetadata{ClusterID: "c"}))
	if m := w.snap().ClusterMetadata(nil); m == nil || m.ClusterID != "c" {
		t.Errorf("cluster metadata is %+v", m)
	}
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	w.ok(w.UpsertNamespaces(w.next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "team"}}}))
	remove := func(name string) error {
		_, err := w.DeleteNamespaces(w.next(), &message.NamespaceDeleteRequest{Namespaces: []string{name}})
		return err
	}
	w.job("j", func(j *nomad.Job) { j.Namespace = "default" })
	w.ok(w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: &nomad.Job{ID: "j", Namespace: "team"}}))
	if remove("team") == nil || remove("default") == nil || remove("none") == nil {
		t.Error("a namespace that must stay can go")
	}
	if got := ids(w.snap().JobsByNamespace(nil, "team"), func(j *nomad.Job) string { return j.Namespace }); got != "[team]" {
		t.Errorf("jobs of the namespace are %s", got)
	}
	w.ok(w.DeregisterJob(w.next(),
		&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "team"}}))
	if err := remove("team"); err != nil {
		t.Error(err)
	}
}
