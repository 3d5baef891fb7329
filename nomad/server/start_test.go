package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A server that does not apply its log in time returns an error. A server may be faster than a
// nanosecond of its clock; the test then tries another one.
func TestStart_Timeout(t *testing.T) {
	for range 20 {
		s, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "slow", RPCAddr: testnet.Any,
			StartTimeout: time.Nanosecond}, servertest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() {
			defer cancel()
			s.Ready(ctx) //nolint:errcheck // it was in time, or Run has ended it
		}()
		err = s.Run(ctx)
		cancel()
		if err == nil || errors.Is(err, context.Canceled) {
			continue // it was in time
		}
		if !strings.Contains(err.Error(), "server.start_timeout") {
			t.Errorf("Run() = %v", err)
		}
		return
	}
	t.Error("every server was in time")
}

// A server that is in time continues after the timeout.
func TestStart_InTime(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.StartTimeout = time.Minute })
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// The server uses its configured directory and shows its gossip address to members.
func TestStart_DirectoryAndGossip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "elsewhere")
	s, _ := servertest.Start(t, func(c *server.Config) {
		c.DataDir, c.Dir, c.SerfAdvertise = t.TempDir(), dir, "10.0.0.7:7000"
	})
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "raft", "*")); len(found) == 0 || err != nil {
		t.Errorf("%s/raft contains %v, %v", dir, found, err)
	}
	if m := s.Self(); m.Addr.String() != "10.0.0.7" || m.Port != 7000 {
		t.Errorf("Self() = %v:%d", m.Addr, m.Port)
	}
	if _, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "x", RPCAddr: testnet.Any, SerfAdvertise: "nowhere"},
		servertest.Logger()); err == nil {
		t.Error("New() accepted an address without a port")
	}
}

func TestRestart_KeepsState(t *testing.T) {
	dir := t.TempDir()
	block := testnet.Take(t)
	set := func(c *server.Config) { c.DataDir, c.RPCAddr = dir, block.Addr(4647) }
	s, stop := servertest.Start(t, set)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	a := n.Allocs(1)[0]

	_, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "twin", DataDir: dir, RPCAddr: testnet.Any},
		servertest.Logger())
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second server on %s: %v, want an error of one line", filepath.Base(dir), err)
	}
	stop()
	s, _ = servertest.Start(t, set)
	// The node calls at once, before the server has applied its log, and must not be refused.
	n.Pool = rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { n.Pool.Close() })
	if out := n.Heartbeat(n.JWT, false); out.HeartbeatTTL == 0 {
		t.Error("the node is not counted")
	}
	if got := n.Allocs(1)[0]; got.ID != a.ID || got.SignedIdentities["t"] != a.SignedIdentities["t"] {
		t.Error("the allocation differs")
	}
	who := servertest.Read[message.ACLWhoAmIResponse](t, s, "ACL.WhoAmI",
		&message.GenericRequest{QueryOptions: message.QueryOptions{AuthToken: a.SignedIdentities["t"]}})
	if who.Identity.Claims == nil || who.Identity.Claims.AllocationID != a.ID {
		t.Errorf("after the restart the token has %+v", who.Identity)
	}
	if len(servertest.Read[message.KeyringListPublicResponse](t, s, "Keyring.ListPublic",
		&message.GenericRequest{QueryOptions: servertest.Global}).PublicKeys) != 1 {
		t.Error("a restart creates another root key")
	}
}

func TestStart_AddressInUse(t *testing.T) {
	ln := testnet.Listen(t)
	_, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "x", RPCAddr: ln.Addr().String()}, servertest.Logger())
	if err == nil || !strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("New() = %v", err)
	}
}
