package gossip_test

import (
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/serf/serf"

	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/gossip"
)

// TestMerge_Rejected joins two incompatible servers while a third is present. Both return
// an error, and no member list changes.
func TestMerge_Rejected(t *testing.T) {
	tags := func(name string, tags ...string) func(*gossip.Config) {
		return func(c *gossip.Config) {
			c.Name = name
			for i := 0; i < len(tags); i += 2 {
				c.Tags[tags[i]] = tags[i+1]
			}
		}
	}
	for name, c := range map[string]struct {
		first, second func(*gossip.Config)
		joiner, met   string // substrings of their errors
	}{
		"another protocol": {tags("a.global", "vsn", "1", "id", "1"), tags("b.global", "vsn", "2", "id", "2"), `speaks version "1"`,
			"member 'b.global' speaks version"},
		"no protocol": {tags("a.global", "vsn", "1", "id", "1"), tags("b.global", "id", "2"), `speaks version "1"`,
			"member 'b.global' speaks version"},
		"the same ID": {tags("a.global", "vsn", "1", "id", "1"), tags("b.global", "vsn", "1", "id", "1"), "has the name or the ID",
			"has the name or the ID"},
		"the same name": {tags("a.global", "vsn", "1", "id", "1"), tags("a.global", "vsn", "1", "id", "2"), "has the name or the ID",
			"has the name or the ID"},
		"a copy": {tags("a.global", "vsn", "1", "id", "1"), tags("a.global", "vsn", "1", "id", "1"), "has the name or the ID",
			"has the name or the ID"},
	} {
		t.Run(name, func(t *testing.T) {
			var first, second testbuffer.Buffer
			third := open(t, "third", tags("third.global", "vsn", "1", "id", "3"))
			a := open(t, "", func(cfg *gossip.Config) { c.first(cfg); cfg.Log = logger(&first) })
			if _, err := a.Join([]string{addr(third)}); err != nil {
				t.Fatal(err)
			}
			eventually(t, third, "a.global", gossip.Alive)
			b := open(t, "", func(cfg *gossip.Config) { c.second(cfg); cfg.Log = logger(&second) })
			for _, to := range []*gossip.Pool{a, third} {
				if n, err := b.Join([]string{addr(to)}); n != 0 || err == nil || !strings.Contains(err.Error(), c.joiner) {
					t.Errorf("Join() = %d, %v, want an error with %q", n, err, c.joiner)
				}
			}
			testpace.Until(t, "the log contains "+c.met, func() bool { return strings.Contains(first.String(), c.met) })
			if len(b.Members()) != 1 || len(a.Members()) != 2 || len(third.Members()) != 2 {
				t.Errorf("the pools have %d, %d and %d members", len(b.Members()), len(a.Members()), len(third.Members()))
			}
			eventually(t, third, "a.global", gossip.Alive) // it may have missed a probe
			for _, m := range third.Members() {
				if m.Name == "a.global" && m.Port != a.Self().Port {
					t.Errorf("the first is now %+v", m)
				}
			}
		})
	}
}

// TestMerge_Moved restarts a member at another address, and under another name, while
// the others still list it as alive.
func TestMerge_Moved(t *testing.T) {
	id := func(c *gossip.Config) { c.Tags["id"] = c.Name }
	for _, name := range []string{"b", "renamed"} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, "a", id), open(t, "b", id)
			if _, err := b.Join([]string{addr(a)}); err != nil {
				t.Fatal(err)
			}
			eventually(t, a, "b.global", gossip.Alive)
			b.Close()
			back := open(t, name, func(c *gossip.Config) { c.Tags["id"] = "b.global" })
			if n, err := back.Join([]string{addr(a)}); n != 1 || err != nil {
				t.Fatalf("Join() = %d, %v", n, err)
			}
			testpace.Until(t, "the member is back", func() bool {
				back.Join([]string{addr(a)}) // like retry_join and the periodic join
				for _, m := range a.Members() {
					if m.Name == name+".global" && m.Status == gossip.Alive && m.Port == back.Self().Port {
						return true
					}
				}
				return false
			})
		})
	}
}

// TestMerge_NotAServer joins with a serf program that is not a server.
func TestMerge_NotAServer(t *testing.T) {
	var log testbuffer.Buffer
	a := open(t, "a", func(c *gossip.Config) { c.Log = logger(&log) })
	conf := serf.DefaultConfig()
	conf.Init()
	conf.NodeName, conf.LogOutput, conf.MemberlistConfig.LogOutput = "stranger", io.Discard, io.Discard
	conf.MemberlistConfig.BindAddr, conf.MemberlistConfig.BindPort = strings.TrimSuffix(testnet.Any, ":0"), 0
	other, err := serf.Create(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Shutdown()
	other.Join([]string{addr(a)}, true) // it has no admission rules
	testpace.Until(t, "the stranger is refused", func() bool { return strings.Contains(log.String(), "member 'stranger' is not a server") })
	if len(a.Members()) != 1 {
		t.Errorf("the pool has %d members", len(a.Members()))
	}
}
