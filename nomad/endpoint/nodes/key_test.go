package nodes_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
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
func signedRegistration(n *servertest.FakeNode, token string, key ed25519.PrivateKey) *message.NodeRegisterRequest {
	n.T.Helper()
	node := *n.Node
	node.Key = key.Public().(ed25519.PublicKey)
	var out message.NodeChallengeResponse
	if err := n.Call("Node.Challenge", &message.NodeChallengeRequest{NodeID: node.ID, Key: node.Key, WriteRequest: n.Write(token)},
		&out); err != nil {
		n.T.Fatal(err)
	}
	return &message.NodeRegisterRequest{Node: &node, CreateNodePool: true, WriteRequest: n.Write(token),
		Proof: &message.NodeProof{Nonce: out.Nonce, Signature: ed25519.Sign(key, message.NodeProofMessage(&node, out.Nonce))}}
}

func sendRegistration(n *servertest.FakeNode, req *message.NodeRegisterRequest) error {
	var out message.NodeUpdateResponse
	err := n.Call("Node.Register", req, &out)
	if err == nil && out.SignedIdentity != nil {
		n.JWT = *out.SignedIdentity
	}
	return err
}

// A node is bound to its first key. Agents with its ID and secret but another key, no key or no private
// key are refused, and the operators of the node get one event.
func TestNodeKey_Bound(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n, own := servertest.NewFakeNode(t, s), newNodeKey(t)
	if err := n.Register(""); err != nil {
		t.Fatalf("without a key: %v", err)
	}
	first := signedRegistration(n, "", own)
	if err := sendRegistration(n, first); err != nil {
		t.Fatalf("first key: %v", err)
	}
	if err := sendRegistration(n, signedRegistration(n, "", own)); err != nil {
		t.Errorf("the same key again: %v", err)
	}
	index := n.Stored(s).ModifyIndex
	forged := signedRegistration(n, "", own)
	forged.Proof.Signature[0] ^= 1
	renamed := signedRegistration(n, "", own)
	renamed.Node.Name = "other"
	foreign := signedRegistration(n, "", own)
	foreign.Proof.Nonce = bytes.Repeat([]byte{1}, len(foreign.Proof.Nonce))
	foreign.Proof.Signature = ed25519.Sign(own, message.NodeProofMessage(foreign.Node, foreign.Proof.Nonce))
	bare := signedRegistration(n, "", own)
	bare.Proof = nil
	for name, req := range map[string]*message.NodeRegisterRequest{"replayed": first, "forged": forged, "of another name": renamed,
		"of another challenge": foreign, "without a proof": bare} {
		var coded *apierror.Coded
		if err := sendRegistration(n, req); !errors.As(err, &coded) || coded.Code != 403 && coded.Code != 409 {
			t.Errorf("a registration %s: %v, want a refusal", name, err)
		}
	}
	if got := n.Stored(s).ModifyIndex; got != index {
		t.Error("a refused registration changed the node")
	}
	for range 3 {
		for name, err := range map[string]error{"another key": sendRegistration(n, signedRegistration(n, "", newNodeKey(t))),
			"no key": n.Register("")} {
			if !errors.Is(err, apierror.ErrNodeHeld) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "node-key") {
				t.Errorf("%s: %v, want a refusal with a remedy", name, err)
			}
		}
	}
	events := 0
	for _, e := range n.Stored(s).Events {
		if strings.Contains(e.Message, "Refused another agent") && e.Subsystem == nomad.NodeEventSubsystemCluster &&
			e.Details["agent_has"] != "" {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events about the copies, want 1", events)
	}
	if err := sendRegistration(n, signedRegistration(n, "", own)); err != nil {
		t.Errorf("the node itself after that: %v", err)
	}
	stolen := servertest.NewFakeNode(t, s)
	stolen.Node.ID = n.Node.ID // without its secret
	if err := sendRegistration(stolen, signedRegistration(stolen, "", newNodeKey(t))); errors.Is(err, apierror.ErrNodeHeld) || err == nil {
		t.Errorf("an agent without the secret: %v", err)
	}
}

// A registration that is refused does not spend its challenge, so that agents without an introduction cannot fill the
// record of challenges. One that is admitted does.
func TestNodeKey_RefusalKeepsChallenge(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = idtoken.EnforcementStrict })
	n := servertest.NewFakeNode(t, s)
	req := signedRegistration(n, "", newNodeKey(t))
	if err := sendRegistration(n, req); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Fatalf("without an introduction: %v", err)
	}
	req.WriteRequest = n.Write(servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}))
	if err := sendRegistration(n, req); err != nil {
		t.Errorf("with an introduction, and the same challenge: %v", err)
	}
	if err := sendRegistration(n, req); err == nil || !strings.Contains(err.Error(), "challenge") {
		t.Errorf("the registration again: %v", err)
	}
}

// Of 200 agents with keys that use one introduction token concurrently, one is admitted. Its key may use
// the token again for the same node only.
func TestNodeKey_IntroductionForOneKey(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = idtoken.EnforcementStrict })
	token := servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})
	pool := rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { pool.Close() })
	type pair struct {
		node *servertest.FakeNode
		key  ed25519.PrivateKey
	}
	var mu sync.Mutex
	var in []pair
	var wg sync.WaitGroup
	for range 200 {
		p := pair{&servertest.FakeNode{T: t, Pool: pool, Addr: s.RPCAddr(), Node: servertest.MockNode()}, newNodeKey(t)}
		req := signedRegistration(p.node, token, p.key)
		wg.Go(func() {
			err := sendRegistration(p.node, req)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				in = append(in, p)
			} else if !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("refused by %v", err)
			}
		})
	}
	wg.Wait()
	if len(in) != 1 {
		t.Fatalf("the token admitted %d keys, want 1", len(in))
	}
	winner := in[0]
	if err := sendRegistration(winner.node, signedRegistration(winner.node, token, winner.key)); err != nil {
		t.Errorf("the same node and key again: %v", err)
	}
	second := &servertest.FakeNode{T: t, Pool: pool, Addr: s.RPCAddr(), Node: servertest.MockNode()}
	if err := sendRegistration(second, signedRegistration(second, token, winner.key)); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("another node with the same key: %v", err)
	}
	upstream := servertest.NewFakeNode(t, s)
	if err := upstream.Register(token); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a node without a key, with the used token: %v", err)
	}
	if err := upstream.Register(servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Errorf("a node without a key, with its own token: %v", err)
	}
}
