package nodes_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// boot returns a boot digest.
func boot(c string) string { return strings.Repeat(c, 64) }

// agentOf returns an agent for n's node with its own session and connections. It answers the
// server's requests if answers is set.
func agentOf(t *testing.T, n *servertest.FakeNode, addr, bootID string, answers bool) *servertest.FakeNode {
	t.Helper()
	if !answers {
		return agentThat(t, n, bootID, nil).at(addr)
	}
	return agentThat(t, n, bootID, func() {}).at(addr)
}

// agent is an agent without the address of its server.
type agent servertest.FakeNode

func (a *agent) at(addr string) *servertest.FakeNode {
	a.Addr = addr
	return (*servertest.FakeNode)(a)
}

// agentThat returns an agent that calls asked before it answers the server's requests. It answers none if asked is nil.
func agentThat(t *testing.T, n *servertest.FakeNode, bootID string, asked func()) *agent {
	t.Helper()
	node := *n.Node
	node.Session = &nomad.NodeSession{ID: nomad.NewID(), BootID: bootID}
	cfg := rpc.PoolConfig{}
	if asked != nil {
		answer := func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.NodeSessionResponse, error) {
			asked()
			return &message.NodeSessionResponse{ID: node.Session.ID}, nil
		}
		s, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{rpc.Handle("NodeIdentity.Session", rpc.Token, rpc.Here,
			answer).Needs(rpc.AnyToken)},
			Auth: rpc.TrustPeer{}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Serve = s
	}
	pool := rpc.NewPool(cfg)
	t.Cleanup(func() { pool.Close() })
	return &agent{T: t, Pool: pool, Node: &node, JWT: n.JWT}
}

// heartbeat sends a heartbeat with the agent's session.
func heartbeat(n *servertest.FakeNode) error {
	return n.Call("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		SessionID: n.Node.Session.ID, WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
}

// settled registers an agent for a node and makes the node ready.
func settled(t *testing.T, addr string) *servertest.FakeNode {
	t.Helper()
	a := agentOf(t, &servertest.FakeNode{Node: servertest.MockNode()}, addr, boot("a"), true)
	if err := errors.Join(a.Register(""), heartbeat(a)); err != nil {
		t.Fatal(err)
	}
	return a
}

func refused(t *testing.T, err error, message string) {
	t.Helper()
	var coded *apierror.Coded
	if !errors.As(err, &coded) || coded.Code != 403 || !errors.Is(err, apierror.ErrNodeHeld) {
		t.Fatalf("%v, want a 403 because another agent uses the node", err)
	}
	for _, text := range []string{message, "client-id", "secret-id"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal %q does not contain %q", err, text)
		}
	}
}

// A copy is refused by every server while the original is alive, and changes nothing.
func TestSession_CopyIsRefused(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	for name, addrs := range map[string][2]string{
		"both at the leader":         {leader.RPCAddr(), leader.RPCAddr()},
		"both at followers":          {followers[0].RPCAddr(), followers[1].RPCAddr()},
		"the original at the leader": {leader.RPCAddr(), followers[0].RPCAddr()},
		"the copy at the leader":     {followers[0].RPCAddr(), leader.RPCAddr()},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Eventually(t, func() bool { return copyIsRefused(t, leader.Server, addrs) })
		})
	}
}

// copyIsRefused settles an agent at one server and registers a copy at another. It returns
// false if the original did not answer within a second: then the copy may be admitted.
func copyIsRefused(t *testing.T, s *server.Server, addrs [2]string) bool {
	t.Helper()
	a := settled(t, addrs[0])
	before := a.Stored(s)
	for bootID, message := range map[string]string{
		boot("b"): "is admitted in",
		boot("a"): "another running agent",
		"":        "another running agent",
	} {
		b := agentOf(t, a, addrs[1], bootID, true)
		b.Node.Attributes, b.Node.NodeClass = map[string]string{"nomad.version": "2.0.6", "os.name": "other"}, "other"
		for _, token := range []string{a.JWT, b.Node.SecretID} {
			begun := time.Now()
			err := b.Register(token)
			if err == nil && time.Since(begun) >= time.Second {
				return false
			}
			refused(t, err, message)
		}
		if err := heartbeat(b); !errors.Is(err, apierror.ErrNodeSession) {
			t.Errorf("a heartbeat of the copy ends with %v", err)
		}
	}
	if after := a.Stored(s); !reflect.DeepEqual(after, before) || after.Session != nil {
		t.Errorf("the original's node changed from %+v to %+v", before, after)
	}
	if err := errors.Join(heartbeat(a), a.Register(a.JWT), heartbeat(a)); err != nil {
		t.Errorf("the original is affected: %v", err)
	}
	return true
}

// A copy that ends its connection while the original is asked is not admitted: the answer is missing for another reason.
func TestSession_CopyGivesUp(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	asked, over := make(chan bool, 1), make(chan bool)
	a := agentThat(t, &servertest.FakeNode{Node: servertest.MockNode()}, boot("a"), func() {
		select {
		case asked <- true:
		default:
		}
		<-over
	}).at(s.RPCAddr())
	defer close(over)
	if err := errors.Join(a.Register(""), heartbeat(a)); err != nil {
		t.Fatal(err)
	}
	before := a.Stored(s)
	b := agentOf(t, a, s.RPCAddr(), boot("a"), true)
	b.Node.NodeClass = "other"
	ended := make(chan error, 1)
	go func() { ended <- b.Register(a.JWT) }()
	<-asked
	if err := b.Pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the copy is admitted")
	}
	for range 20 {
		if err := heartbeat(a); err != nil {
			t.Fatalf("the original is affected: %v", err)
		}
	}
	if after := a.Stored(s); after.NodeClass != before.NodeClass {
		t.Errorf("the original's node changed from %+v to %+v", before, after)
	}
}

// A killed agent does not answer, so its successor is admitted at once. If the old agent is
// alive after all, it must register.
func TestSession_RestartedAgent(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	_, followers := servertest.Split(t, all)
	a := settled(t, followers[0].RPCAddr())
	b := a
	testpace.Once(t, 900*time.Millisecond, "a restart, which would be asked about for a second,", func() time.Duration {
		if err := b.Pool.Close(); err != nil {
			t.Fatal(err)
		}
		b = agentOf(t, a, followers[1].RPCAddr(), boot("a"), true)
		begun := time.Now()
		if err := errors.Join(b.Register(a.JWT), heartbeat(b)); err != nil {
			t.Fatal(err)
		}
		return time.Since(begun)
	})
	late := *a
	late.Pool = agentOf(t, a, "", "", false).Pool
	for _, err := range []error{heartbeat(&late), late.Register(a.JWT)} {
		if !errors.Is(err, apierror.ErrNodeSession) {
			t.Errorf("the late heartbeat of the old agent ends with %v", err)
		}
	}
	if err := heartbeat(b); err != nil {
		t.Errorf("the restarted agent is affected: %v", err)
	}
}

// A rebooted machine and a restored backup are admitted after the node has become silent.
func TestSession_SilentNode(t *testing.T) {
	t.Parallel()
	s, _ := servertest.Start(t, soonSilent)
	a := settled(t, s.RPCAddr())
	b := agentOf(t, a, s.RPCAddr(), boot("b"), true)
	refused(t, b.Register(a.JWT), "is admitted in")
	servertest.Eventually(t, func() bool { return b.Register(a.JWT) == nil })
	if err := heartbeat(b); err != nil {
		t.Error(err)
	}
}

// The next leader has the node's session.
func TestSession_CopyIsRefusedByNextLeader(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.MinHeartbeatTTL, c.HeartbeatGrace = time.Second, 20*time.Second })
	leader, followers := servertest.Split(t, all)
	a := settled(t, followers[0].RPCAddr())
	b := agentOf(t, a, followers[0].RPCAddr(), boot("b"), true)
	refused(t, b.Register(a.JWT), "is admitted")
	leader.Stop()
	servertest.Eventually(t, func() bool {
		_, id := followers[0].Leader()
		return id != "" && id != leader.Self().Tags["id"]
	})
	// The original has not contacted the next leader yet.
	var err error
	servertest.Eventually(t, func() bool {
		err = b.Register(a.JWT)
		return !errors.Is(err, apierror.ErrNoLeader) && !errors.Is(err, apierror.ErrNotReady)
	})
	refused(t, err, "is admitted")
	if err := heartbeat(a); err != nil {
		t.Errorf("the original is affected: %v", err)
	}
	refused(t, b.Register(a.JWT), "is admitted")
}

// The session data of a node is limited.
func TestSession_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	for name, bad := range map[string]*nomad.NodeSession{
		"no ID": {BootID: boot("a")}, "no UUID": {ID: strings.Repeat("x", 36)}, "a short boot": {ID: nomad.NewID(), BootID: "ab"},
		"a long boot": {ID: nomad.NewID(), BootID: boot("a") + "a"},
	} {
		n := servertest.NewFakeNode(t, s)
		n.Node.Session = bad
		var coded *apierror.Coded
		if err := n.Register(""); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("%s: %v, want a 400", name, err)
		}
	}
}
