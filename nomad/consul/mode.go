// Package consul decides what the servers of a region do with services of provider "consul". This project has no Consul
// integration yet: without Consul, such services are registered in the native catalog.
//
//	setting ──┬─ nomad, refuse, consul ───────────────────────▶ that mode
//	          └─ "" ──┬─ no ready node has Consul ────────────▶ Native
//	                  └─ a ready node has the attribute of one ▶ Consul
//
// The right of workloads to Consul keys is stricter: with the setting "", a node of any status that has Consul ends it.
//
// The setting is server.services.consul of the agent configuration. The package reads the nodes of a snapshot and
// writes nothing. It starts no goroutine.
package consul

import (
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Mode is what the servers do with services of provider "consul".
type Mode string

// The modes. They are the values of the setting.
const (
	Native Mode = "nomad"  // they are stored with provider "nomad"
	Consul Mode = "consul" // Consul registers them, which this version does not support: they are refused
	Refuse Mode = "refuse" // they are refused
)

// Modes are the valid values of the setting, except for the default "".
var Modes = []Mode{Native, Consul, Refuse}

// Services is the setting of the servers of a region. It caches the mode. A nil Services has the default setting.
type Services struct {
	setting Mode

	mu    sync.Mutex
	store *state.Store // of the cached mode
	index uint64       // of the table of nodes
	found found
}

// found is what the default setting depends on.
type found struct {
	mode Mode
	any  bool // a node of any status has Consul
}

// NewServices returns the Services of a setting, which must be one of Modes or "".
func NewServices(setting Mode) *Services { return &Services{setting: setting} }

// Mode returns the mode in a snapshot. With the default setting it depends on the nodes, which are read after a change
// only.
func (s *Services) Mode(snap *state.Snapshot) Mode {
	if s != nil && s.setting != "" {
		return s.setting
	}
	return s.find(snap).mode
}

// NativeKeys reports whether workloads read the variables of Consul keys without a policy. They do in mode Native, since
// a region that keeps Consul may have secrets there. With the default setting they do not while the state has a node with
// Consul, whatever its status: an outage of these nodes must not grant a right.
func (s *Services) NativeKeys(snap *state.Snapshot) bool {
	if s != nil && s.setting != "" {
		return s.setting == Native
	}
	return !s.find(snap).any
}

// Configured reports whether the operator has set the mode. Otherwise it follows the nodes.
func (s *Services) Configured() bool { return s != nil && s.setting != "" }

// find returns what the default setting depends on. The result is cached until a node changes.
func (s *Services) find(snap *state.Snapshot) found {
	if s == nil {
		return search(snap)
	}
	index := snap.TableIndex(state.TableNodes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found.mode == "" || s.store != snap.Store() || s.index != index {
		s.store, s.index, s.found = snap.Store(), index, search(snap)
	}
	return s.found
}

// search looks for nodes with Consul.
func search(snap *state.Snapshot) found {
	out := found{mode: Native}
	for n := range snap.Nodes(nil) {
		if !HasConsul(n) {
			continue
		}
		out.any = true
		if n.Status == nomad.NodeStatusReady {
			out.mode = Consul
			break
		}
	}
	return out
}

// HasConsul reports whether a node has an agent of Consul: the attribute consul.version, or consul.<name>.version of
// another cluster. Only clients of Nomad report them.
func HasConsul(n *nomad.Node) bool {
	for name := range n.Attributes {
		if strings.HasPrefix(name, "consul.") && strings.HasSuffix(name, ".version") {
			return true
		}
	}
	return false
}
