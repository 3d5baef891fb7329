package server_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// newNodeKey returns a key pair of a node.
func newNodeKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signed returns the registration of the node, signed with a key for a new challenge.
func (n *fakeNode) signed(token string, key ed25519.PrivateKey) *message.NodeRegisterRequest {
	n.t.Helper()
	node := *n.node
	node.Key = key.Public().(ed25519.PublicKey)
	var out message.NodeChallengeResponse
	if err := n.call("Node.Challenge", &message.NodeChallengeRequest{NodeID: node.ID, Key: node.Key, WriteRequest: n.write(token)}, &out); err != nil {
		n.t.Fatal(err)
	}
	return &message.NodeRegisterRequest{Node: &node, CreateNodePool: true, WriteRequest: n.write(token),
		Proof: &nomad.NodeProof{Nonce: out.Nonce, Signature: ed25519.Sign(key, nomad.NodeProofMessage(&node, out.Nonce))}}
}

// stored returns a node as the servers have it.
func stored(t *testing.T, s *server.Server, id string) *nomad.Node {
	t.Helper()
	req := &message.NodeSpecificRequest{NodeID: id, QueryOptions: message.QueryOptions{Region: "global"}}
	return read[message.SingleNodeResponse](t, s, "Node.GetNode", req).Node
}

func (n *fakeNode) send(req *message.NodeRegisterRequest) error {
	var out message.NodeUpdateResponse
	err := n.call("Node.Register", req, &out)
	if err == nil && out.SignedIdentity != nil {
		n.jwt = *out.SignedIdentity
	}
	return err
}

// A node is bound to its first key. Agents with its ID and secret but another key, no key or no private
// key are refused, and the operators of the node get one event.
func TestNodeIsBoundToItsKey(t *testing.T) {
	s, _ := start(t, nil)
	n, own := stranger(t, s), newNodeKey(t)
	if err := n.enter(""); err != nil {
		t.Fatalf("without a key: %v", err)
	}
	first := n.signed("", own)
	if err := n.send(first); err != nil {
		t.Fatalf("first key: %v", err)
	}
	if err := n.send(n.signed("", own)); err != nil {
		t.Errorf("the same key again: %v", err)
	}
	index := stored(t, s, n.node.ID).ModifyIndex
	forged := n.signed("", own)
	forged.Proof.Signature[0] ^= 1
	renamed := n.signed("", own)
	renamed.Node.Name = "other"
	foreign := n.signed("", own)
	foreign.Proof.Nonce = bytes.Repeat([]byte{1}, len(foreign.Proof.Nonce))
	foreign.Proof.Signature = ed25519.Sign(own, nomad.NodeProofMessage(foreign.Node, foreign.Proof.Nonce))
	bare := n.signed("", own)
	bare.Proof = nil
	for name, req := range map[string]*message.NodeRegisterRequest{"replayed": first, "forged": forged, "of another name": renamed, "of another challenge": foreign, "without a proof": bare} {
		var coded *nomad.CodedError
		if err := n.send(req); !errors.As(err, &coded) || coded.Code != 403 && coded.Code != 409 {
			t.Errorf("a registration %s: %v, want a refusal", name, err)
		}
	}
	if got := stored(t, s, n.node.ID).ModifyIndex; got != index {
		t.Error("a refused registration changed the node")
	}
	for range 3 {
		for name, err := range map[string]error{"another key": n.send(n.signed("", newNodeKey(t))), "no key": n.enter("")} {
			if !errors.Is(err, nomad.ErrNodeHeld) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "node-key") {
				t.Errorf("%s: %v, want a refusal with a remedy", name, err)
			}
		}
	}
	events := 0
	for _, e := range stored(t, s, n.node.ID).Events {
		if strings.Contains(e.Message, "Refused another agent") && e.Subsystem == nomad.NodeEventSubsystemCluster && e.Details["agent_has"] != "" {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events about the copies, want 1", events)
	}
	if err := n.send(n.signed("", own)); err != nil {
		t.Errorf("the node itself after that: %v", err)
	}
	stolen := stranger(t, s)
	stolen.node.ID = n.node.ID // without its secret
	if err := stolen.send(stolen.signed("", newNodeKey(t))); errors.Is(err, nomad.ErrNodeHeld) || err == nil {
		t.Errorf("an agent without the secret: %v", err)
	}
}

// A registration that is refused does not spend its challenge, so that agents without an introduction cannot fill the
// record of challenges. One that is admitted does.
func TestRefusedAgentSpendsNoChallenge(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { c.Introduction.Enforcement = nomad.NodeIntroductionEnforcementStrict })
	n := stranger(t, s)
	req := n.signed("", newNodeKey(t))
	if err := n.send(req); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Fatalf("without an introduction: %v", err)
	}
	req.WriteRequest = n.write(introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}))
	if err := n.send(req); err != nil {
		t.Errorf("with an introduction, and the same challenge: %v", err)
	}
	if err := n.send(req); err == nil || !strings.Contains(err.Error(), "challenge") {
		t.Errorf("the registration again: %v", err)
	}
}

// Of 200 agents with keys that use one introduction token concurrently, one is admitted. Its key may use
// the token again for the same node only.
func TestIntroductionIsForOneKey(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { c.Introduction.Enforcement = nomad.NodeIntroductionEnforcementStrict })
	token := introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})
	pool := rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { pool.Close() })
	type pair struct {
		node *fakeNode
		key  ed25519.PrivateKey
	}
	var mu sync.Mutex
	var in []pair
	var wg sync.WaitGroup
	for range 200 {
		p := pair{&fakeNode{t: t, pool: pool, addr: s.RPCAddr(), node: mockNode()}, newNodeKey(t)}
		req := p.node.signed(token, p.key)
		wg.Go(func() {
			err := p.node.send(req)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				in = append(in, p)
			} else if !errors.Is(err, nomad.ErrPermissionDenied) {
				t.Errorf("refused by %v", err)
			}
		})
	}
	wg.Wait()
	if len(in) != 1 {
		t.Fatalf("the token admitted %d keys, want 1", len(in))
	}
	winner := in[0]
	if err := winner.node.send(winner.node.signed(token, winner.key)); err != nil {
		t.Errorf("the same node and key again: %v", err)
	}
	second := &fakeNode{t: t, pool: pool, addr: s.RPCAddr(), node: mockNode()}
	if err := second.send(second.signed(token, winner.key)); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("another node with the same key: %v", err)
	}
	upstream := stranger(t, s)
	if err := upstream.enter(token); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a node without a key, with the used token: %v", err)
	}
	if err := upstream.enter(introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Errorf("a node without a key, with its own token: %v", err)
	}
}
