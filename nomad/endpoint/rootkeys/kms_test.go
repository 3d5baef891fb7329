package rootkeys_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func transit(v *testvault.Transit, name string, active bool) kms.Config {
	return kms.Config{Provider: "transit", Name: name, Active: active, Keys: map[string]string{
		"address": v.Addr(), "token": testvault.Token, "key_name": "root", "disable_renewal": "true"}}
}

func aead(active bool) kms.Config { return kms.Config{Provider: "aead", Active: active} }

// at runs a server with a directory, keyrings and a log.
func at(t *testing.T, dir string, keyrings ...kms.Config) (*server.Server, func(), *servertest.Log) {
	t.Helper()
	log := &servertest.Log{}
	cfg := server.Config{Region: "global", Datacenter: "dc1", Name: "test", RPCAddr: testnet.Any, DataDir: dir, Keyring: keyrings,
		SignWithin: 300 * time.Millisecond, StartTimeout: time.Minute, HeartbeatGrace: time.Hour}
	s, err := server.New(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			<-done
			if t.Failed() {
				t.Log(log)
			}
		})
	}
	t.Cleanup(stop)
	return s, stop, log
}

// keyList returns the root keys from the leader.
func keyList(t *testing.T, s *server.Server) []*rootkey.Meta {
	t.Helper()
	return servertest.Read[message.KeyringListRootKeyMetaResponse](t, s, "Keyring.List",
		&message.KeyringListRootKeyMetaRequest{QueryOptions: servertest.Global}).Keys
}

// activeKey returns the active key, or nil.
func activeKey(t *testing.T, s *server.Server) *rootkey.Meta {
	t.Helper()
	for _, k := range keyList(t, s) {
		if k.State == rootkey.Active {
			return k
		}
	}
	return nil
}

// tryRotate requests a new key.
func tryRotate(t *testing.T, s *server.Server) error {
	t.Helper()
	return s.Call(servertest.Context(t), "Keyring.Rotate",
		&message.KeyringRotateRootKeyRequest{WriteRequest: message.WriteRequest{Region: "global"}}, nil)
}

// A server whose key management is unreachable starts, reports what it cannot open, verifies
// tokens, and signs after the service has returned.
func TestKMS_Unreachable(t *testing.T) {
	v, dir := testvault.StartTransit(t), t.TempDir()
	s, stop, _ := at(t, dir, transit(v, "main", true))
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil && activeKey(t, s).Closed == "" })
	if k := activeKey(t, s); fmt.Sprint(k.WrappedBy) != "[transit.main]" {
		t.Errorf("wrapped by %v", k.WrappedBy)
	}
	n := servertest.Join(t, s.RPCAddr())
	stop()
	v.Set(testvault.Forbidden)
	s, stop, log := at(t, dir, transit(v, "main", true))
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return log.Has("level=WARN", "open root key", "transit.main", "403", "permission denied") })
	if log.Has(testvault.Token) {
		t.Error("the log contains the token")
	}
	k := activeKey(t, s)
	if k == nil || !strings.Contains(k.Closed, "transit.main") || s.Stats()["keyring"]["closed"] != "1" {
		t.Errorf("keyring list shows %+v, stats %v", k, s.Stats()["keyring"])
	}
	n.Addr = s.RPCAddr()
	var out message.NodeUpdateResponse // its token is verified; no new one is due
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, &out)
	if published := servertest.Read[message.KeyringListPublicResponse](t, s, "Keyring.ListPublic",
		&message.GenericRequest{QueryOptions: servertest.Global}).PublicKeys; len(published) != 1 {
		t.Errorf("verifiers see %v", published)
	}
	other := servertest.MockNode()
	err := n.Call("Node.Register", &message.NodeRegisterRequest{Node: other, WriteRequest: n.Write("")}, &out)
	if err == nil || !strings.Contains(err.Error(), "transit.main") {
		t.Errorf("a request that needs a signature: %v", err)
	}
	if err := tryRotate(t, s); err == nil || !strings.Contains(err.Error(), "transit.main") || len(keyList(t, s)) != 1 {
		t.Errorf("a rotation: %v", err)
	}
	servertest.Register(t, s, servertest.BatchJob("waiting", 1)) // its evaluation is processed when the server can sign
	v.Set(testvault.None)
	servertest.Eventually(t, func() bool { return activeKey(t, s).Closed == "" && s.Stats()["keyring"]["closed"] == "0" })
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: other, WriteRequest: n.Write("")}, &out)
	servertest.Eventually(t, func() bool {
		req := &message.JobSpecificRequest{JobID: "waiting", QueryOptions: message.QueryOptions{Region: "global", Namespace: "default"}}
		return len(servertest.Read[message.JobAllocationsResponse](t, s, "Job.Allocations", req).Allocations) == 1
	})
	if !log.Has("level=INFO", "opened root key") {
		t.Error("the log does not report that the key is open")
	}
	if err := tryRotate(t, s); err != nil {
		t.Error(err)
	}
	stop()
}

// A new cluster whose key management is unreachable has a leader and creates its key later.
func TestKMS_FirstKeyLater(t *testing.T) {
	v := testvault.StartTransit(t)
	v.Set(testvault.Down)
	s, _, log := at(t, t.TempDir(), transit(v, "", true))
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return log.Has("level=WARN", "no root key yet", "transit") })
	if k := keyList(t, s); len(k) != 0 {
		t.Errorf("keys are %v", k)
	}
	v.Set(testvault.None)
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil })
	servertest.Join(t, s.RPCAddr())
}

// A service that hangs delays neither the start nor keys that others unwrap.
func TestKMS_Hung(t *testing.T) {
	v, w, dir := testvault.StartTransit(t), testvault.StartTransit(t), t.TempDir()
	s, stop, _ := at(t, dir, transit(v, "a", true), transit(w, "b", true))
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil && activeKey(t, s).Closed == "" })
	if k := activeKey(t, s); fmt.Sprint(k.WrappedBy) != "[transit.a transit.b]" {
		t.Errorf("wrapped by %v", k.WrappedBy)
	}
	stop()
	v.Set(testvault.Hung)
	s, stop, log := at(t, dir, transit(v, "a", true), transit(w, "b", true))
	if err := s.Ready(servertest.Context(t)); err != nil || log.Has("continuing before all root keys are open") {
		t.Errorf("Ready() = %v, or it waited for the hung service", err)
	}
	servertest.Join(t, s.RPCAddr())
	w.Set(testvault.Wrong) // now the service unwraps nothing correctly
	stop()
	s, _, log = at(t, dir, transit(w, "b", true), aead(false))
	servertest.Eventually(t, func() bool { return log.Has("level=WARN", "transit.b: unwrapped key does not match the public key") })
	if activeKey(t, s).Closed == "" {
		t.Error("a wrong key is accepted")
	}
}

// With both configured, a rotation moves a cluster from the built-in wrapper to a service and
// back. Earlier keys stay open while their wrapper is available.
func TestKMS_Migration(t *testing.T) {
	v, dir := testvault.StartTransit(t), t.TempDir()
	s, stop, _ := at(t, dir)
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil })
	n := servertest.Join(t, s.RPCAddr())
	first := activeKey(t, s)
	stop()
	step := func(want string, keyrings ...kms.Config) (*server.Server, func(), *servertest.Log) {
		t.Helper()
		s, stop, log := at(t, dir, keyrings...)
		if err := s.Ready(servertest.Context(t)); err != nil {
			t.Fatal(err)
		}
		if err := tryRotate(t, s); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, func() bool { return s.Stats()["keyring"]["closed"] == "0" && activeKey(t, s).Closed == "" })
		if got := fmt.Sprint(activeKey(t, s).WrappedBy); got != want {
			t.Errorf("wrapped by %s, want %s", got, want)
		}
		n.Addr = s.RPCAddr()
		n.JWT = *n.Heartbeat(n.JWT, true).SignedIdentity // verified with an old key, signed with the new one
		return s, stop, log
	}
	_, stop, _ = step("[aead transit]", aead(true), transit(v, "", true))
	stop()
	_, stop, _ = step("[transit]", aead(false), transit(v, "", true))
	stop()
	s, stop, _ = step("[aead]", aead(true), transit(v, "", false))
	for _, k := range keyList(t, s) {
		if k.KeyID == first.KeyID && (fmt.Sprint(k.WrappedBy) != "[aead]" || k.Closed != "") {
			t.Errorf("the first key is %+v", k)
		}
	}
	stop()
	// The service is removed while a key needs it: the server logs that and continues.
	s, _, log := at(t, dir)
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return log.Has("level=ERROR", "wrapped by transit; configure that keyring again") })
	n.Addr = s.RPCAddr()
	n.Heartbeat(n.JWT, true)
	if err := tryRotate(t, s); err != nil {
		t.Error(err)
	}
}

// A service that encrypts but cannot decrypt does not create a key that would be lost.
func TestKMS_KeyCannotBeReadBack(t *testing.T) {
	v := testvault.StartTransit(t)
	s, _, _ := at(t, t.TempDir(), aead(true), transit(v, "w", true))
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil })
	v.Set(testvault.NoDecrypt)
	if err := tryRotate(t, s); err == nil || !strings.Contains(err.Error(), "transit.w") || len(keyList(t, s)) != 1 {
		t.Errorf("Keyring.Rotate = %v", err)
	}
}

// If one server of a cluster cannot reach the service, the others continue, and that server
// verifies their tokens.
func TestKMS_OneServerWithout(t *testing.T) {
	good, bad := testvault.StartTransit(t), testvault.StartTransit(t)
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		c.Keyring = []kms.Config{transit(good, "main", true)}
		if c.Name == "s2" {
			c.Keyring = []kms.Config{transit(bad, "main", true)}
			c.Workers = -1
			c.Raft.Multiplier = 10 // if the leader is lost, another server is elected first
			bad.Set(testvault.Down)
		}
		c.SignWithin = time.Second
	})
	if leader, _ := servertest.Split(t, all); leader.Server == all[2].Server {
		servertest.TransferLeadership(t, all, all[0])
	}
	servertest.Eventually(t, func() bool { return activeKey(t, all[0].Server) != nil })
	servertest.Eventually(t, func() bool { return all[2].Stats()["keyring"]["closed"] != "0" })
	n := servertest.Join(t, all[2].RPCAddr()) // the leader signs
	servertest.Register(t, all[2].Server, servertest.BatchJob("b", 1))
	if alloc := n.Allocs(1)[0]; alloc.SignedIdentities["t"] == "" {
		t.Error("the allocation has no identity")
	}
	var out message.SingleJobResponse // that server verifies the token itself
	stale := message.QueryOptions{Region: "global", AllowStale: true, AuthToken: n.JWT}
	n.Must("Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: stale}, &out)
	if err := tryRotate(t, all[2].Server); err != nil {
		t.Error(err)
	}
	if all[2].Stats()["keyring"]["open"] != "0" || all[0].Stats()["keyring"]["closed"] != "0" {
		t.Errorf("keyrings are %v and %v", all[2].Stats()["keyring"], all[0].Stats()["keyring"])
	}
	bad.Set(testvault.None) // it has other keys, so it cannot open these
	servertest.Eventually(t, func() bool { return bad.Requests() > 0 })
	if all[2].Stats()["keyring"]["open"] != "0" {
		t.Error("a key was opened by a service that did not wrap it")
	}
}

// Without a signing key a node is not admitted, and nothing is stored. A node with an identity
// can send heartbeats without getting the requested new one.
func TestKMS_NodesWithoutSigningKey(t *testing.T) {
	v, dir := testvault.StartTransit(t), t.TempDir()
	s, stop, _ := at(t, dir, transit(v, "main", true))
	servertest.Eventually(t, func() bool { return activeKey(t, s) != nil && activeKey(t, s).Closed == "" })
	n := servertest.Join(t, s.RPCAddr())
	stop()
	v.Set(testvault.Forbidden)
	s, _, _ = at(t, dir, transit(v, "main", true))
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	n.Addr = s.RPCAddr()
	if out := n.Heartbeat(n.JWT, true); out.SignedIdentity != nil || out.HeartbeatTTL <= 0 {
		t.Errorf("a heartbeat that asks for an identity brings %+v", out)
	}
	late := servertest.NewFakeNode(t, s)
	if err := late.Register(""); err == nil || errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a registration without a signing key ends with %v", err)
	}
	if got := late.Stored(s); got != nil {
		t.Errorf("the refused node is %+v", got)
	}
	v.Set(testvault.None)
	servertest.Eventually(t, func() bool { return late.Register("") == nil && late.JWT != "" })
	if out := n.Heartbeat(n.JWT, true); out.SignedIdentity == nil {
		t.Error("a heartbeat brings no identity although there is a key again")
	}
}
