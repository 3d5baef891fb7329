package server_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestGossipKeys_Rotation changes the key of a running cluster. No member fails, a server with
// the old key cannot join, and a restarted server rejoins.
func TestGossipKeys_Rotation(t *testing.T) {
	old, next := make([]byte, 32), make([]byte, 32)
	rand.Read(old)
	rand.Read(next)
	text := func(key []byte) string { return base64.StdEncoding.EncodeToString(key) }
	dirs := map[string]string{"s0": t.TempDir(), "s1": t.TempDir(), "s2": t.TempDir()}
	blocks := map[string]*testnet.Block{"s0": testnet.Take(t), "s1": testnet.Take(t), "s2": testnet.Take(t)}
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		c.GossipKey, c.DataDir, c.RPCAddr, c.SerfAddr = old, dirs[c.Name], blocks[c.Name].Addr(4647), blocks[c.Name].Addr(4648)
		c.GossipProbe = 2 * time.Second // a server that is briefly slow must not count as failed
	})
	servertest.Eventually(t, func() bool { // all have met
		for _, m := range all {
			if len(m.Members()) != 3 {
				return false
			}
		}
		return true
	})
	lost := make(chan string, 100)
	watch(t, all, lost)
	leader, followers := servertest.Split(t, all)
	must := func(resp *message.KeyringResponse, err error) *message.KeyringResponse {
		t.Helper()
		if err != nil || resp.NumNodes != 3 || len(resp.Messages) != 0 {
			t.Fatalf("%+v, %v", resp, err)
		}
		return resp
	}
	must(leader.InstallGossipKey(text(next)))
	must(followers[0].UseGossipKey(text(next)))
	must(followers[1].RemoveGossipKey(text(old)))
	if now := must(leader.ListGossipKeys()); len(now.Keys) != 1 || now.PrimaryKeys[text(next)] != 3 {
		t.Errorf("the servers have %d keys", len(now.Keys))
	}
	for _, dir := range dirs {
		var keys []string
		raw, err := os.ReadFile(filepath.Join(dir, "server", "serf.keyring"))
		if err != nil || json.Unmarshal(raw, &keys) != nil || len(keys) != 1 || keys[0] != text(next) {
			t.Errorf("serf.keyring: %v, %d keys", err, len(keys))
		}
	}
	servertest.Register(t, followers[0].Server, servertest.BatchJob("b", 0))

	late := servertest.StartMember(t, "late", func(c *server.Config) { c.GossipKey = old })
	if _, err := late.Join([]string{leader.GossipAddr()}); err == nil || !strings.Contains(err.Error(), "gossip key") {
		t.Errorf("a server with the old key: %v", err)
	}
	select {
	case what := <-lost:
		t.Error(what)
	default:
	}
	if len(leader.Members()) != 3 {
		t.Errorf("the leader has %d members", len(leader.Members()))
	}

	// The configured key is no longer used.
	name := strings.TrimSuffix(followers[0].Self().Name, ".global")
	followers[0].Stop()
	back := servertest.StartMember(t, name, func(c *server.Config) {
		c.GossipKey, c.DataDir, c.RetryJoin = old, dirs[name], []string{leader.GossipAddr()}
		c.RPCAddr, c.SerfAddr = blocks[name].Addr(4647), blocks[name].Addr(4648)
	})
	servertest.Eventually(t, func() bool {
		alive := 0
		for _, m := range back.Members() {
			if m.Status == gossip.Alive {
				alive++
			}
		}
		return alive == 3
	})
}

// watch reports members with another status than alive.
func watch(t *testing.T, all []servertest.Member, lost chan<- string) {
	ended := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			for _, m := range all[0].Members() {
				if m.Status != gossip.Alive {
					select {
					case lost <- m.Name + " is " + m.Status:
					default:
					}
				}
			}
		}
	}()
	t.Cleanup(func() { close(ended); <-done })
}

func TestGossipKeys_NoGossip(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	if _, err := s.ListGossipKeys(); err == nil || !strings.Contains(err.Error(), "does not use gossip") {
		t.Errorf("ListGossipKeys() = %v", err)
	}
}

// TestGossip_ForeignClusters joins servers with conflicting settings.
func TestGossip_ForeignClusters(t *testing.T) {
	here := servertest.StartMember(t, "s0", func(c *server.Config) { c.BootstrapExpect, c.DataDir = 1, t.TempDir() })
	servertest.Eventually(t, func() bool { _, id := here.Leader(); return id != "" })
	key := []byte("0123456789abcdef")
	for name, c := range map[string]struct {
		change func(*server.Config)
		want   string
	}{
		"a cluster of its own": {func(c *server.Config) { c.BootstrapExpect = 1 }, "each bootstrapped a cluster"},
		"the same name":        {func(c *server.Config) { c.Name = "s0" }, "another server has the name or the ID of this one"},
		"another gossip key":   {func(c *server.Config) { c.GossipKey = key }, "gossip key"},
	} {
		t.Run(name, func(t *testing.T) {
			other := servertest.StartMember(t, "other", c.change)
			if n, err := other.Join([]string{here.GossipAddr()}); n != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Join() = %d, %v, want an error with %q", n, err, c.want)
			}
			if len(other.Members()) != 1 || len(here.Members()) != 1 {
				t.Errorf("they have %d and %d members", len(other.Members()), len(here.Members()))
			}
			if voters, err := here.RaftServers(); err != nil || len(voters) != 1 {
				t.Errorf("%d voters, %v", len(voters), err)
			}
		})
	}
	// A server with another Raft version, which this program does not support.
	pool, err := gossip.Open(gossip.Config{Name: "newer.global", Bind: "127.0.0.1:0", Tags: map[string]string{
		"region": "global", "vsn": "1", "raft_vsn": "4", "id": nomad.NewID(), "port": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := here.Join([]string{servertest.JoinAddr(pool.Self())}); err == nil ||
		!strings.Contains(err.Error(), `uses Raft protocol version "4"`) {
		t.Errorf("Join() = %v", err)
	}
	if len(here.Members()) != 1 {
		t.Errorf("it has %d members", len(here.Members()))
	}
}
