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
// none the allocation gets a network namespace, which is removed after the last task. The client
// creates it, or a driver that must create the networks of its tasks.
type networkHook struct {
	alloc    string
	group    *nomad.TaskGroup // nil if the allocation does not have it
	networks Networks
	drivers  Drivers

	created *drivers.GroupNetwork // by a driver, in this agent
	removed bool
}

func newNetworkHook(c Config) hook.Hook {
	h := &networkHook{alloc: c.Alloc.ID, networks: c.Networks, drivers: c.Drivers}
	if c.Alloc.Job != nil {
		h.group = c.Alloc.Job.TaskGroup(c.Alloc.TaskGroup)
	}
	return h
}

func (*networkHook) Name() string { return "network" }

func (h *networkHook) Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error {
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
	if err := h.joinable(group); err != nil {
		return err
	}
	n, err := h.create(ctx, group)
	if err != nil {
		return err
	}
	resp.NetNS, resp.NetLabels = n.Path, n.Labels
	resp.Network = &nomad.AllocNetworkStatus{InterfaceName: "lo", Address: "127.0.0.1", AddressIPv6: "::1", DNS: dnsOf(group)}
	return nil
}

// create returns the network of the allocation.
func (h *networkHook) create(ctx context.Context, group *nomad.TaskGroup) (*drivers.GroupNetwork, error) {
	by, err := h.creator(group)
	if err != nil {
		return nil, err
	}
	if by != nil {
		h.created, err = by.CreateNetwork(ctx, h.alloc, "")
		if err != nil {
			return nil, fmt.Errorf("create the network of the group: %w", err)
		}
		return h.created, nil
	}
	if h.networks == nil {
		return nil, errors.New("this client does not create network namespaces")
	}
	path, err := h.networks.Make(h.alloc)
	return &drivers.GroupNetwork{Path: path}, err
}

// creator returns the driver that must create the group's network, nil for the client.
func (h *networkHook) creator(group *nomad.TaskGroup) (drivers.NetworkCreator, error) {
	var name string
	var by drivers.NetworkCreator
	for _, t := range group.Tasks {
		d, err := h.drivers.Driver(t.Driver)
		if err != nil {
			return nil, fmt.Errorf("task %q: %w", t.Name, err)
		}
		c, ok := d.(drivers.NetworkCreator)
		if !ok || !d.Capabilities().MustCreateNetwork || t.Driver == name {
			continue
		}
		if by != nil {
			return nil, fmt.Errorf("drivers %q and %q must both create the network of the group: use one of them", name, t.Driver)
		}
		name, by = t.Driver, c
	}
	return by, nil
}

// joinable returns an error for the first task whose driver cannot join the group's network.
func (h *networkHook) joinable(group *nomad.TaskGroup) error {
	for _, t := range group.Tasks {
		d, err := h.drivers.Driver(t.Driver)
		if err != nil {
			return fmt.Errorf("task %q: %w", t.Name, err)
		}
		if !slices.Contains(d.Capabilities().Networks, drivers.NetworkGroup) {
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
func (h *networkHook) Postrun(ctx context.Context) error { return h.remove(ctx) }

// Destroy removes the network namespace if no agent ran Postrun.
func (h *networkHook) Destroy(ctx context.Context) error { return h.remove(ctx) }

func (h *networkHook) remove(ctx context.Context) error {
	var errs []error
	if h.networks != nil {
		errs = append(errs, h.networks.Remove(h.alloc))
	}
	if h.group == nil || h.group.NetworkMode() != nomad.NetworkModeNone || h.removed {
		return errors.Join(errs...)
	}
	by, err := h.creator(h.group)
	if err == nil && by != nil {
		err = by.DestroyNetwork(ctx, h.alloc, h.created)
	}
	h.removed = err == nil
	return errors.Join(append(errs, err)...)
}
