package consul_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestMode checks the mode of each setting, with and without nodes that have Consul.
func TestMode(t *testing.T) {
	for name, c := range map[string]struct {
		setting   consul.Mode
		attribute string
		status    string
		want      consul.Mode
	}{
		"default without nodes":  {"", "", "", consul.Native},
		"default without Consul": {"", "consul", nomad.NodeStatusReady, consul.Native},
		"default with Consul":    {"", "consul.version", nomad.NodeStatusReady, consul.Consul},
		"another cluster":        {"", "consul.west.version", nomad.NodeStatusReady, consul.Consul},
		"of another subject":     {"", "consul.segment", nomad.NodeStatusReady, consul.Native},
		"down":                   {"", "consul.version", nomad.NodeStatusDown, consul.Consul},
		"disconnected":           {"", "consul.west.version", nomad.NodeStatusDisconnected, consul.Consul},
		"initializing":           {"", "consul.version", nomad.NodeStatusInit, consul.Consul},
		"nomad with Consul":      {consul.Native, "consul.version", nomad.NodeStatusReady, consul.Native},
		"consul without Consul":  {consul.Consul, "", "", consul.Consul},
		"refuse":                 {consul.Refuse, "", "", consul.Refuse},
	} {
		s := state.New(nil)
		if c.status != "" {
			register(t, s, 2, &nomad.Node{ID: "a", SecretID: "s", Status: c.status, Attributes: map[string]string{c.attribute: "1.20.0"}})
		}
		services := consul.NewServices(consul.Config{Setting: c.setting})
		if got := services.Mode(s.Snapshot()); got != c.want {
			t.Errorf("%s: Mode() = %q, want %q", name, got, c.want)
		}
		if got := services.Configured(); got != (c.setting != "") {
			t.Errorf("%s: Configured() = %v", name, got)
		}
		if got := services.NativeKeys(s.Snapshot()); got != (c.want == consul.Native) {
			t.Errorf("%s: NativeKeys() = %v in mode %q", name, got, c.want)
		}
	}
}

// TestHasConsul_Registrations checks whether a node has Consul after a registration and after the next one.
func TestHasConsul_Registrations(t *testing.T) {
	key := []byte("of a client of this project")
	for name, c := range map[string]struct {
		first, next string // an attribute
		key         []byte // of the second registration
		want        bool
	}{
		"never":                       {"nomad.version", "nomad.version", nil, false},
		"found later":                 {"nomad.version", "consul.version", nil, true},
		"still there":                 {"consul.version", "consul.version", nil, true},
		"unreachable":                 {"consul.version", "nomad.version", nil, true},
		"another cluster unreachable": {"consul.west.version", "nomad.version", nil, true},
		"replaced by this project":    {"consul.version", "nomad.version", key, false},
		"reported by this project":    {"nomad.version", "consul.version", key, false},
	} {
		old := &nomad.Node{Attributes: map[string]string{c.first: "1.20.0"}}
		for n := range 3 { // the mark outlives further registrations
			next := &nomad.Node{Attributes: map[string]string{c.next: "1.20.0"}, Key: c.key}
			next.HadConsul = consul.KeepsConsul(old, next)
			if got := consul.HasConsul(next); got != c.want {
				t.Errorf("%s: HasConsul() = %v after registration %d, want %v", name, got, n+2, c.want)
			}
			old = next
		}
	}
}

// TestMode_FollowsNodes checks that the cached mode follows the nodes and a replaced store.
func TestMode_FollowsNodes(t *testing.T) {
	services, s := consul.NewServices(consul.Config{}), state.New(nil)
	want := func(when string, s *state.Store, want consul.Mode) {
		t.Helper()
		if got := services.Mode(s.Snapshot()); got != want {
			t.Errorf("%s: Mode() = %q, want %q", when, got, want)
		}
	}
	want("empty", s, consul.Native)
	node := &nomad.Node{ID: "a", SecretID: "s", Status: nomad.NodeStatusReady, Attributes: map[string]string{"consul.version": "1.20.0"}}
	register(t, s, 5, node)
	want("with Consul", s, consul.Consul)
	want("again", s, consul.Consul)
	restored := state.New(nil)
	register(t, restored, 5, &nomad.Node{ID: "a", SecretID: "s", Status: nomad.NodeStatusReady})
	want("restored, same index", restored, consul.Native)
	var none *consul.Services
	if got := none.Mode(s.Snapshot()); got != consul.Consul || none.Configured() {
		t.Errorf("nil: Mode() = %q, Configured() = %v; want the default setting", got, none.Configured())
	}
}

// BenchmarkMode measures a call with the cached mode of 5,000 nodes.
func BenchmarkMode(b *testing.B) {
	s := state.New(nil)
	for i := range 5000 {
		register(b, s, uint64(2+i), &nomad.Node{ID: string(rune('a'+i%26)) + string(rune(0x4e00+i)), Status: nomad.NodeStatusReady,
			Attributes: map[string]string{"nomad.version": "2.0.6", "cpu.arch": "amd64"}})
	}
	services := consul.NewServices(consul.Config{})
	snap := s.Snapshot()
	for b.Loop() {
		services.Mode(snap)
	}
}

func register(t testing.TB, s *state.Store, index uint64, n *nomad.Node) {
	t.Helper()
	if _, err := s.RegisterNode(index, &message.NodeRegisterRequest{Node: n}); err != nil {
		t.Fatal(err)
	}
}
