package gossip_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const probe = 50 * time.Millisecond

func open(t *testing.T, name string, edit func(*gossip.Config)) *gossip.Pool {
	t.Helper()
	cfg := gossip.Config{Name: name + ".global", Bind: testnet.Any, Tags: map[string]string{"region": "global"}, Probe: probe}
	if edit != nil {
		edit(&cfg)
	}
	p, err := gossip.Open(cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func addr(p *gossip.Pool) string {
	self := p.Self()
	return fmt.Sprintf("%s:%d", self.Addr, self.Port)
}

// eventually waits until a member has the status; "" means that it is unknown.
func eventually(t *testing.T, p *gossip.Pool, name, want string) {
	t.Helper()
	testpace.Until(t, name+" is "+want, func() bool { return status(p, name) == want })
}

// status returns the status of a member, "" if it is not listed.
func status(p *gossip.Pool, name string) string {
	for _, m := range p.Members() {
		if m.Name == name {
			return m.Status
		}
	}
	return ""
}

func TestPool_JoinLeave(t *testing.T) {
	gone := make(chan []*message.ServerMember, 100)
	a := open(t, "a", func(c *gossip.Config) {
		c.Changed = func(g []*message.ServerMember) {
			if len(g) > 0 {
				gone <- g
			}
		}
	})
	b, c := open(t, "b", nil), open(t, "c", nil)
	for _, p := range []*gossip.Pool{b, c} {
		if n, err := p.Join([]string{addr(a)}); n != 1 || err != nil {
			t.Fatalf("Join() = %d, %v", n, err)
		}
	}
	eventually(t, b, "c.global", gossip.Alive)
	if m := a.Self(); m.Tags["role"] != "nomad" || m.Tags["region"] != "global" || m.DelegateCur != 4 || m.ProtocolCur != 2 {
		t.Errorf("Self() = %+v", m)
	}
	// A member that lives is leaving until it objects. It ignores a request that is as old as its own join: then the next one
	// is newer.
	for objected := false; !objected; {
		if err := a.ForceLeave("c.global"); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); !objected && time.Now().Before(end); {
			objected = status(a, "c.global") == gossip.Alive
			<-time.After(20 * time.Millisecond)
		}
	}
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	eventually(t, a, "b.global", gossip.Left)
	for end, reported := time.After(time.Minute), false; !reported; {
		select {
		case g := <-gone: // another member may have missed a probe before
			reported = slices.ContainsFunc(g, func(m *message.ServerMember) bool { return m.Name == "b.global" })
		case <-end:
			t.Fatal("Changed was not called for b")
		}
	}
	c.Close()
	eventually(t, a, "c.global", gossip.Failed)
	if err := a.ForceLeave("c.global"); err != nil {
		t.Fatal(err)
	}
	eventually(t, a, "c.global", gossip.Left)
	if err := a.Prune("c.global"); err != nil {
		t.Fatal(err)
	}
	eventually(t, a, "c.global", "")
	if err := a.ForceLeave("nobody"); err != nil {
		t.Errorf("ForceLeave() of an unknown member = %v", err)
	}
}

func TestPool_RejectedKey(t *testing.T) {
	key := func(k string) func(*gossip.Config) { return func(c *gossip.Config) { c.Key = []byte(k) } }
	refuse := func(c *gossip.Config) {
		c.Admit = func(m *message.ServerMember) error { return fmt.Errorf("%s is not admitted", m.Name) }
	}
	for name, c := range map[string]struct {
		a, b func(*gossip.Config)
		want string
	}{
		"another key":  {key("0123456789abcdef"), key("fedcba9876543210"), "gossip key"},
		"no key":       {key("0123456789abcdef"), nil, "gossip key"},
		"one key":      {nil, key("0123456789abcdef"), "gossip key"},
		"not admitted": {nil, refuse, "a.global is not admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, "a", c.a), open(t, "b", c.b)
			if n, err := b.Join([]string{addr(a)}); n != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Join() = %d, %v, want an error with %q", n, err, c.want)
			}
			if len(b.Members()) != 1 || c.want == "gossip key" && len(a.Members()) != 1 {
				t.Errorf("the pools have %d and %d members", len(a.Members()), len(b.Members()))
			}
		})
	}
	a, b := open(t, "a", key("0123456789abcdef")), open(t, "b", key("0123456789abcdef"))
	if n, err := b.Join([]string{addr(a)}); n != 1 || err != nil {
		t.Errorf("the same key: Join() = %d, %v", n, err)
	}
	if _, err := gossip.Open(gossip.Config{Name: "x", Bind: testnet.Any, Key: []byte("short")}); err == nil {
		t.Error("a key of 5 bytes is accepted")
	}
}

func TestPool_Restart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "serf", "snapshot")
	keep := func(c *gossip.Config) { c.Snapshot = file }
	a, b := open(t, "a", nil), open(t, "b", keep)
	if _, err := b.Join([]string{addr(a)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, a, "b.global", gossip.Alive)
	b.Close()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("snapshot: %v, %v", info.Mode(), err)
	}
	again := open(t, "b", keep)
	eventually(t, again, "a.global", gossip.Alive)
}
