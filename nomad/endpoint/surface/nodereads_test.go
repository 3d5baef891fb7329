package surface_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// aboutAlloc sets all fields of a request that can refer to an allocation.
func aboutAlloc(req rpc.Request, a *nomad.Allocation, eval string) {
	for name, value := range map[string]any{"AllocID": a.ID, "AllocIDs": []string{a.ID}, "JobID": a.JobID, "NodeID": a.NodeID, "EvalID": eval,
		"Task": "t", "Text": a.ID[:4], "Prefix": a.ID[:4], "Context": message.ContextAllocs} {
		field := reflect.ValueOf(req).Elem().FieldByName(name)
		if field.IsValid() && field.Type() == reflect.TypeOf(value) {
			field.Set(reflect.ValueOf(value))
		}
	}
}

// A node cannot read allocations of other nodes with any method, neither with its identity nor
// with its secret. It can read its own.
func TestNodeReads_OwnAllocsOnly(t *testing.T) {
	g := twoNamespaces(t)
	other, a := servertest.Join(t, g.Server.RPCAddr()), g.alloc["a"]
	own := func(secret string) *nomad.Allocation {
		return servertest.ReadWith[message.SingleAllocResponse](g.ACLServer, secret, "Alloc.GetAlloc",
			&message.AllocSpecificRequest{AllocID: a.ID}).Alloc
	}
	for _, secret := range []string{g.node.JWT, g.node.Node.SecretID} {
		if shown := own(secret); shown == nil || shown.SignedIdentities != nil {
			t.Errorf("a node reads its allocation: %+v", shown)
		}
	}
	for what, secret := range map[string]string{"identity": other.JWT, "secret": other.Node.SecretID} {
		for _, m := range g.Server.Methods() {
			if m.Stream || m.Rule == rpc.ServerOnly {
				continue
			}
			for _, namespace := range []string{"a", "*"} {
				req := m.NewRequest()
				aboutAlloc(req, a, g.eval["a"])
				servertest.SetToken(req, secret)
				if q, ok := req.(interface{ Query() *message.QueryOptions }); ok {
					q.Query().Namespace = namespace
				}
				out := m.NewResponse()
				if err := other.Call(m.Name, req, out); err != nil {
					continue
				}
				text, err := codec.Encode(out)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), a.ID) {
					t.Errorf("%s returns the allocation of another node to a node with its %s", m.Name, what)
				}
			}
		}
		for _, topic := range []message.Topic{message.TopicAllocation, message.TopicJob, message.TopicEvaluation,
			message.TopicDeployment, message.TopicAll} {
			req := servertest.EventRequest("*", servertest.Topics(string(topic)+":*"))
			req.AuthToken = secret
			if _, err := servertest.Follow(t, g.Server, req); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("a node with its %s reads events of the topic %s: %v", what, topic, err)
			}
		}
	}
	// The credentials of a purged node read nothing.
	g.Must("Node.BatchDeregister", &message.NodeBatchDeregisterRequest{NodeIDs: []string{g.node.Node.ID}}, nil)
	var out message.SingleAllocResponse
	err := g.Call(g.node.JWT, "Alloc.GetAlloc", &message.AllocSpecificRequest{AllocID: a.ID}, &out)
	if err == nil && out.Alloc != nil || err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a purged node reads %+v, %v", out.Alloc, err)
	}
}
