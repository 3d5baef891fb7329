package allochook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// GroupNetwork is the value in a driver's Capabilities.Networks if its tasks can join the
// allocation's network namespace.
const GroupNetwork = "group"

// Networks creates and removes the network namespaces of allocations (netns.Set).
type Networks interface {
	Make(alloc string) (path string, err error)
	Remove(alloc string) error
}

// Drivers finds a driver by name (driverset.Set).
type Drivers interface {
	Driver(name string) (drivers.Driver, error)
}

// networkHook sets up the group's network. The host's network needs no preparation. In mode
// none the allocation gets a network namespace, which is removed after the last task.
type networkHook struct {
	alloc    string
	networks Networks
	drivers  Drivers
}

func newNetworkHook(c Config) hook.Hook {
	return &networkHook{alloc: c.Alloc.ID, networks: c.Networks, drivers: c.Drivers}
}

func (*networkHook) Name() string { return "network" }

func (h *networkHook) Prerun(_ context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if group == nil {
		return nil
	}
	switch mode := group.NetworkMode(); mode {
	case nomad.NetworkModeHost:
		return nil
	case nomad.NetworkModeNone:
	default:
		return fmt.Errorf("this client does not support network mode %q yet", mode)
	}
	if h.networks == nil {
		return errors.New("this client does not create network namespaces")
	}
	if err := h.joinable(group); err != nil {
		return err
	}
	path, err := h.networks.Make(h.alloc)
	if err != nil {
		return err
	}
	resp.NetNS = path
	resp.Network = &nomad.AllocNetworkStatus{InterfaceName: "lo", Address: "127.0.0.1", AddressIPv6: "::1", DNS: dnsOf(group)}
	return nil
}

// joinable returns an error for the first task whose driver cannot join the group's network.
func (h *networkHook) joinable(group *nomad.TaskGroup) error {
	for _, t := range group.Tasks {
		d, err := h.drivers.Driver(t.Driver)
		if err != nil {
			return fmt.Errorf("task %q: %w", t.Name, err)
		}
		if !slices.Contains(d.Capabilities().Networks, GroupNetwork) {
			return fmt.Errorf("task %q: driver %q can't join the group's network of mode %q: use mode \"host\", or another driver", t.Name, t.Driver, group.NetworkMode())
		}
	}
	return nil
}

func dnsOf(group *nomad.TaskGroup) *nomad.DNSConfig {
	for _, n := range group.Networks {
		if n.DNS != nil {
			return n.DNS
		}
	}
	return nil
}

// Postrun removes the network namespace, in which no process is left.
func (h *networkHook) Postrun(context.Context) error { return h.remove() }

// Destroy removes the network namespace if no agent ran Postrun.
func (h *networkHook) Destroy(context.Context) error { return h.remove() }

func (h *networkHook) remove() error {
	if h.networks == nil {
		return nil
	}
	return h.networks.Remove(h.alloc)
}
