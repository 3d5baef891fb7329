// Package consul decides what the servers of a region do with services of provider "consul", and has the names of the
// identities with which workloads log in to Consul. Without Consul, such services are registered in the native catalog.
//
//	setting ──┬─ nomad, refuse, consul ──────────▶ that mode
//	          └─ "" ──┬─ no client of Nomad has Consul ▶ Native
//	                  └─ one has, up or down ────────▶ Consul
//
// In mode Native, workloads also read the variables of Consul's keys without a policy. Neither the status of a node nor a
// failure of its Consul changes the mode: an outage must neither map jobs nor grant this right. The default changes to
// Native when the last node with Consul is collected or purged, or when a client of this project replaces its client.
//
// The setting is server.services.consul of the agent configuration. Without it, a server with a consul block has the
// setting "consul". The package reads the nodes of a snapshot and writes nothing. It starts no goroutine.
package consul

import (
	"strings"
	"sync"

	agent "github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Mode is what the servers do with services of provider "consul".
type Mode string

// The modes. They are the values of the setting.
const (
	Native Mode = "nomad"  // they are stored with provider "nomad"
	Consul Mode = "consul" // they are stored as they are: nodes with Consul register them there
	Refuse Mode = "refuse" // they are refused
)

// Modes are the valid values of the setting, except for the default "".
var Modes = []Mode{Native, Consul, Refuse}

// Config is what the configuration of a server says about Consul.
type Config struct {
	Setting Mode // one of Modes, or "" for the default
	// ServiceIdentity and TaskIdentity are the identities with which services and tasks of new jobs log in to Consul. nil
	// adds none.
	ServiceIdentity, TaskIdentity *nomad.WorkloadIdentity
	// Agent is the agent of Consul of this server, nil without a consul block. The configuration of gateways is written there.
	Agent *agent.Agent
}

// Services is the setting of the servers of a region. It caches the mode. A nil Services has the default setting.
type Services struct {
	Config

	mu    sync.Mutex
	store *state.Store // of the cached mode
	index uint64       // of the table of nodes
	mode  Mode         // of the default setting, "" before the first call
}

// NewServices returns the Services of a configuration.
func NewServices(c Config) *Services { return &Services{Config: c} }

// Mode returns the mode in a snapshot. With the default setting it depends on the nodes, which are read after a change
// only.
func (s *Services) Mode(snap *state.Snapshot) Mode {
	if s != nil && s.Setting != "" {
		return s.Setting
	}
	return s.find(snap)
}

// NativeKeys reports whether workloads read the variables of Consul keys without a policy. They do in mode Native, since
// a region that keeps Consul may have secrets there.
func (s *Services) NativeKeys(snap *state.Snapshot) bool { return s.Mode(snap) == Native }

// Configured reports whether the operator has set the mode. Otherwise it follows the nodes.
func (s *Services) Configured() bool { return s != nil && s.Setting != "" }

// find returns the mode of the default setting. It is cached until a node changes.
func (s *Services) find(snap *state.Snapshot) Mode {
	if s == nil {
		return search(snap)
	}
	index := snap.TableIndex(state.TableNodes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == "" || s.store != snap.Store() || s.index != index {
		s.store, s.index, s.mode = snap.Store(), index, search(snap)
	}
	return s.mode
}

// search looks for a node with Consul.
func search(snap *state.Snapshot) Mode {
	for n := range snap.Nodes(nil) {
		if HasConsul(n) {
			return Consul
		}
	}
	return Native
}

// HasConsul reports whether a node has an agent of Consul: the attribute consul.version, or consul.<name>.version of
// another cluster, now or at an earlier registration. Attributes of clients of this project do not count. These clients
// have a key, to which the node is bound, and register nothing in Consul: a compromised one cannot change the mode.
func HasConsul(n *nomad.Node) bool {
	if len(n.Key) > 0 {
		return false
	}
	if n.HadConsul {
		return true
	}
	for name := range n.Attributes {
		if strings.HasPrefix(name, "consul.") && strings.HasSuffix(name, ".version") {
			return true
		}
	}
	return false
}

// KeepsConsul reports whether a node that registers again keeps its Consul without the attribute. A client of Nomad that
// restarts while its Consul is down does not report it.
func KeepsConsul(old, registering *nomad.Node) bool {
	return len(registering.Key) == 0 && HasConsul(old)
}
