package state_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// with returns a registration of a node whose drivers have these schemas.
func with(id string, digests ...string) *message.NodeRegisterRequest {
	n := &nomad.Node{ID: id, NodePool: "default", Status: nomad.NodeStatusReady, Attributes: map[string]string{},
		Drivers: map[string]*nomad.DriverInfo{}}
	for _, digest := range digests {
		n.Drivers["d"+digest] = &nomad.DriverInfo{Detected: true}
		n.Attributes["driver.d"+digest+".schema"] = digest
	}
	return &message.NodeRegisterRequest{Node: n, CreateNodePool: true}
}

func TestDriverSchemas(t *testing.T) {
	w := newWorld(t)
	upsert := func(node string, digests ...string) {
		t.Helper()
		req := &message.DriverSchemaUpsertRequest{NodeID: node}
		for _, digest := range digests {
			req.Schemas = append(req.Schemas, &nomad.DriverSchema{Digest: digest, Spec: []byte(digest)})
		}
		w.ok(w.UpsertDriverSchemas(w.next(), req))
	}
	want := func(when string, digests ...string) {
		t.Helper()
		got := ids(w.snap().DriverSchemas(nil), func(d *nomad.DriverSchema) string { return d.Digest })
		if got != "["+strings.Join(digests, " ")+"]" {
			t.Fatalf("%s: schemas %q, want %q", when, got, digests)
		}
	}
	w.ok(w.RegisterNode(w.next(), with("n1", "a", "b")))
	w.ok(w.RegisterNode(w.next(), with("n2", "b", "c")))
	upsert("n1", "a", "b", "c") // n1 does not name c
	want("first node", "a", "b")
	upsert("n2", "c", "b")
	want("second node", "a", "b", "c")
	if d := w.snap().DriverSchema(nil, "b"); string(d.Spec) != "b" || d.CreateIndex != w.snap().DriverSchema(nil, "a").CreateIndex {
		t.Errorf("schema b is %+v, want the one of the first node", d)
	}
	if _, err := w.UpsertDriverSchemas(w.next(), &message.DriverSchemaUpsertRequest{NodeID: "n9"}); err == nil {
		t.Error("UpsertDriverSchemas() of a node that does not exist succeeds")
	}
	w.ok(w.RegisterNode(w.next(), with("n1", "b")))
	want("n1 lost a", "b", "c")
	w.ok(w.RegisterNode(w.next(), with("n1")))
	want("n2 still names b", "b", "c")
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n2"}}))
	want("n2 is gone")
}
