package services

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// contact is a cluster with a leader.
type contact struct{ handler.Cluster }

func (contact) Contact() (bool, time.Duration) { return true, 0 }

// TestIndex_FollowsAnswers checks for random writes that the index of an answer never becomes lower, and rises with each
// change of the answer. A client that waits with the index misses a change otherwise.
func TestIndex_FollowsAnswers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(prefix string) string { return fmt.Sprint(prefix, rng.IntN(4)) }
	store := state.New(nil)
	s := New(handler.New(handler.Config{Store: func() *state.Store { return store }, Cluster: contact{}}))
	call := &rpc.Call{Identity: &rbac.AuthenticatedIdentity{}, Access: &rpc.Access{Rights: acl.Everything, Disabled: true}}
	opts := message.QueryOptions{Namespace: "default"}
	instances := func(req message.ServiceInstancesRequest) func() (any, uint64, error) {
		return func() (any, uint64, error) {
			req.QueryOptions = opts
			out, err := s.Instances(t.Context(), call, &req)
			if err != nil {
				return nil, 0, err
			}
			return out.Instances, out.Index, nil
		}
	}
	reads := map[string]func() (any, uint64, error){
		"instances of a service": instances(message.ServiceInstancesRequest{ServiceName: "s1"}),
		"instances on a node":    instances(message.ServiceInstancesRequest{NodeID: "n1"}),
		"names": func() (any, uint64, error) {
			out, err := s.List(context.Background(), call, &message.ServiceRegistrationListRequest{QueryOptions: opts})
			return out.Services, out.Index, err
		},
		"registrations": func() (any, uint64, error) {
			out, err := s.GetService(context.Background(), call, &message.ServiceRegistrationByNameRequest{ServiceName: "s1", QueryOptions: opts})
			return out.Services, out.Index, err
		},
	}
	type answer struct {
		text  string
		index uint64
	}
	last := map[string]answer{}
	for index := uint64(2); index < 1000; index++ {
		id := pick("n")
		var err error
		switch rng.IntN(8) {
		case 0, 1:
			_, err = store.RegisterNode(index, &message.NodeRegisterRequest{Node: &nomad.Node{ID: id, SecretID: "secret " + id, Name: pick("name"),
				Status: nomad.NodeStatusReady, HTTPAddr: "10.0.0.1:4646"}})
		case 2:
			if store.Snapshot().Node(nil, id) != nil {
				_, err = store.DeregisterNodes(index, state.Deregistration{IDs: []string{id}})
			}
		case 3:
			for r := range store.Snapshot().Registrations(nil) {
				_, err = store.DeleteRegistration(index, &message.ServiceRegistrationDeleteByIDRequest{ID: r.ID,
					WriteRequest: message.WriteRequest{Namespace: r.Namespace}})
				break
			}
		default:
			row := &catalog.Registration{ID: pick("id"), ServiceName: pick("s"), Namespace: "default", NodeID: id, AllocID: "a", JobID: "j",
				Address: pick("10.0.1."), Port: 1}
			_, err = store.UpsertRegistrations(index, &message.ServiceRegistrationUpsertRequest{Services: []*catalog.Registration{row}})
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range reads {
			body, at, err := read()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			before := last[name]
			if at < before.index || at == before.index && string(text) != before.text {
				t.Fatalf("%s after the write %d: index %d after %d\n%s\n%s", name, index, at, before.index, before.text, text)
			}
			last[name] = answer{string(text), at}
		}
	}
}
