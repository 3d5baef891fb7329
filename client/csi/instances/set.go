package instances

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// Kind is a service of a plugin that an instance provides.
type Kind string

// The kinds of instances.
const (
	KindController Kind = "csi-controller"
	KindNode       Kind = "csi-node"
)

// Instance is an instance of a plugin.
type Instance struct {
	Kind     Kind
	ID       string // of the plugin
	AllocID  string
	Provider string // the name of the plugin's program
	Version  string
	Socket   csi.Socket
	Root     string // the directory of the plugin's volumes on the host
	TaskRoot string // the path of Root as the plugin sees it
	// Privileged reports whether the task may do on the node what root may. What others make is not used as a device.
	Privileged bool
	Updated    time.Time // when it was registered; Register sets it
}

// Store keeps instances across restarts of the agent.
type Store interface {
	PutCSIInstance(i *state.CSIInstance) error
	DeleteCSIInstance(kind, plugin, alloc string) error
	CSIInstances() ([]*state.CSIInstance, error)
}

// Config configures a Set. All fields are required.
type Config struct {
	Store Store
	// Known reports whether the node still has an allocation that has not ended. Restore calls it.
	Known func(alloc string) bool
	// Changed is called after what Infos returns has changed. It must not block.
	Changed func()
	// Emit records an event of the node. It must not block.
	Emit func(nomad.NodeEvent)
	Log  *slog.Logger
}

// Set holds the instances of a node. Its methods may be called concurrently.
type Set struct {
	cfg  Config
	dial dialer

	registered wake.Signal    // an instance was registered or deregistered
	updated    wake.Broadcast // the health of an instance has changed, or an instance was registered or deregistered
	ready      chan struct{}  // closed when the instances of an earlier agent have been probed once

	mu      sync.Mutex
	lists   map[key][]Instance // newest first, without empty lists
	entries map[key]*entry     // of each list, and of plugins that have ended
	// restored are the instances of an earlier agent, nil after Run has begun. pending counts those that Ready waits for.
	restored map[Instance]bool
	pending  int
}

// key identifies a plugin.
type key struct {
	kind Kind
	id   string
}

// entry is what is known about the instance that serves, or about the last one that did.
type entry struct {
	info     nomad.CSIInfo
	calls    *csi.Plugin // nil before the first fingerprint
	instance Instance    // the one of calls
	owner    *watch      // nil for a plugin that has ended
	emitted  string      // the text of the last event
	reported bool        // Changed was called for the instance
}

// New returns a Set without instances. Restore adds those of an earlier agent.
func New(cfg Config) *Set {
	return &Set{cfg: cfg, dial: dialPlugin, registered: wake.New(), ready: make(chan struct{}), restored: map[Instance]bool{},
		lists: map[key][]Instance{}, entries: map[key]*entry{}}
}

// Restore adds the instances of an earlier agent. One whose allocation the node does not have any more is dropped. It must be
// called before Run and before the tasks are restored.
func (s *Set) Restore() error {
	records, err := s.cfg.Store.CSIInstances()
	slices.SortStableFunc(records, func(a, b *state.CSIInstance) int { return b.Updated.Compare(a.Updated) })
	errs := []error{err}
	for _, r := range records {
		i := fromRecord(r)
		if !s.cfg.Known(i.AllocID) {
			s.cfg.Log.Info("dropped an instance of a CSI plugin whose allocation has ended", "plugin", i.ID, "kind", i.Kind, "alloc", i.AllocID)
			errs = append(errs, s.cfg.Store.DeleteCSIInstance(r.Kind, r.PluginID, r.AllocID))
			continue
		}
		s.mu.Lock()
		s.lists[i.key()] = append(s.lists[i.key()], i)
		s.restored[i] = true
		s.mu.Unlock()
	}
	s.registered.Send()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore the instances of CSI plugins: %w", err)
	}
	return nil
}

// Register adds an instance, which then serves. An instance that is already registered with the same attributes stays as it is.
func (s *Set) Register(i Instance) error {
	if err := i.check(); err != nil {
		return err
	}
	s.mu.Lock()
	known := slices.ContainsFunc(s.lists[i.key()], i.same)
	s.mu.Unlock()
	if known {
		return nil
	}
	i.Updated = time.Now()
	if err := s.cfg.Store.PutCSIInstance(i.record()); err != nil {
		return fmt.Errorf("store %s plugin %q of allocation %s: %w", i.Kind, i.ID, i.AllocID, err)
	}
	s.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(s.lists[i.key()]), func(o Instance) bool { return o.AllocID == i.AllocID })
	s.lists[i.key()] = slices.Insert(list, 0, i)
	s.mu.Unlock()
	s.cfg.Log.Info("registered a CSI plugin", "plugin", i.ID, "kind", i.Kind, "alloc", i.AllocID, "provider", i.Provider, "version", i.Version)
	s.registered.Send()
	s.updated.Send()
	return nil
}

// Has reports whether an allocation is registered as an instance of a plugin.
func (s *Set) Has(kind Kind, id, alloc string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lists[key{kind, id}], func(i Instance) bool { return i.AllocID == alloc })
}

// Deregister removes an instance. One that does not exist is not an error.
func (s *Set) Deregister(kind Kind, id, alloc string) error {
	k := key{kind, id}
	s.mu.Lock()
	before := len(s.lists[k])
	list := slices.DeleteFunc(slices.Clone(s.lists[k]), func(o Instance) bool { return o.AllocID == alloc })
	if s.lists[k] = list; len(list) == 0 {
		delete(s.lists, k)
	}
	s.mu.Unlock()
	if len(list) != before {
		s.cfg.Log.Info("deregistered a CSI plugin", "plugin", id, "kind", kind, "alloc", alloc)
		s.registered.Send()
		s.updated.Send()
	}
	if err := s.cfg.Store.DeleteCSIInstance(string(kind), id, alloc); err != nil {
		return fmt.Errorf("remove %s plugin %q of allocation %s from the client state: %w", kind, id, alloc, err)
	}
	return nil
}

func (i *Instance) key() key { return key{i.Kind, i.ID} }

// same reports whether two instances differ in nothing but the time of their registration.
func (i Instance) same(o Instance) bool {
	i.Updated = o.Updated
	return i == o
}

func (i *Instance) check() error {
	switch {
	case i.Kind != KindController && i.Kind != KindNode:
		return fmt.Errorf("register a CSI plugin: unknown kind %q", i.Kind)
	case i.ID == "" || i.AllocID == "":
		return fmt.Errorf("register a CSI plugin: plugin ID %q and allocation ID %q must not be empty", i.ID, i.AllocID)
	}
	return nil
}

// record returns the instance as it is stored.
func (i *Instance) record() *state.CSIInstance {
	return &state.CSIInstance{Kind: string(i.Kind), PluginID: i.ID, AllocID: i.AllocID, Provider: i.Provider, Version: i.Version,
		SocketDir: i.Socket.Dir, SocketName: i.Socket.Name, Root: i.Root, TaskRoot: i.TaskRoot, Privileged: i.Privileged,
		Updated: i.Updated}
}

func fromRecord(r *state.CSIInstance) Instance {
	return Instance{Kind: Kind(r.Kind), ID: r.PluginID, AllocID: r.AllocID, Provider: r.Provider, Version: r.Version,
		Socket: csi.Socket{Dir: r.SocketDir, Name: r.SocketName}, Root: r.Root, TaskRoot: r.TaskRoot, Privileged: r.Privileged,
		Updated: r.Updated}
}
