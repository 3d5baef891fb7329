package allochook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Networks creates and removes the network namespaces of allocations (package client).
type Networks interface {
	Make(ctx context.Context, alloc string) (path string, err error)
	Remove(alloc string) error
}

// Connections connects network namespaces with the networks of the node (package client).
type Connections interface {
	// Connect connects the namespace at path, or keeps it as an earlier agent has connected it.
	Connect(ctx context.Context, a *nomad.Allocation, n *nomad.NetworkResource, path string) (*nomad.AllocNetworkStatus, error)
	// Disconnect does nothing for an allocation that is not connected.
	Disconnect(ctx context.Context, alloc string) error
	// Hostname returns the hostname of the network with its references interpolated.
	Hostname(a *nomad.Allocation, n *nomad.NetworkResource) (string, error)
}

// Drivers finds a driver by name (driverset.Set).
type Drivers interface {
	Driver(name string) (drivers.Driver, error)
}

// networkHook sets up the group's network. The host's network needs no preparation. In the other
// modes the allocation gets a network namespace, which is removed after the last task. The client
// creates it, or a driver that must create the networks of its tasks. In mode none it has a loopback
// interface only; in the others it is connected to the bridge or to a CNI network.
type networkHook struct {
	alloc    string
	group    *nomad.TaskGroup // nil if the allocation does not have it
	networks Networks
	connect  Connections
	drivers  Drivers
	start    Start
	log      *slog.Logger

	created *drivers.GroupNetwork // by a driver, in this agent
	removed bool
}

func newNetworkHook(c Config) hook.Hook {
	h := &networkHook{alloc: c.Alloc.ID, networks: c.Networks, connect: c.Connections, drivers: c.Drivers, start: c.Start, log: c.Log}
	if c.Alloc.Job != nil {
		h.group = c.Alloc.Job.TaskGroup(c.Alloc.TaskGroup)
	}
	return h
}

func (*networkHook) Name() string { return "network" }

func (h *networkHook) Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if group == nil || len(group.Networks) == 0 {
		return nil
	}
	if connect.InMesh(group, transparent) {
		return errTransparent
	}
	ask, mode := group.Networks[0], group.NetworkMode()
	if mode == nomad.NetworkModeHost {
		if ask.Hostname != "" {
			return errors.New(`hostname cannot be set on task group using "host" networking mode`)
		}
		return nil
	}
	connected := mode != nomad.NetworkModeNone
	if connected && h.connect == nil {
		return fmt.Errorf("this client does not support network mode %q", mode)
	}
	if err := h.joinable(group); err != nil {
		return err
	}
	var err error
	if ask.Hostname != "" && h.connect != nil {
		if resp.Hostname, err = h.connect.Hostname(req.Alloc, ask); err != nil {
			return err
		}
	}
	n, err := h.create(ctx, group, resp.Hostname, req.Restored)
	if err != nil {
		return fmt.Errorf("failed to create network for alloc: %w", err)
	}
	resp.NetNS, resp.NetLabels = n.Path, n.Labels
	if !connected {
		resp.Network = &nomad.AllocNetworkStatus{InterfaceName: "lo", Address: "127.0.0.1", AddressIPv6: "::1", DNS: dnsOf(group)}
		return nil
	}
	resp.Network, err = h.connectUntilStopped(ctx, req.Alloc, ask, n.Path)
	return err
}

// errTransparent is returned for a group whose connections a proxy should receive without being asked.
var errTransparent = errors.New("transparent_proxy: this client does not configure the CNI plugin consul-cni: remove the block, and " +
	"name the upstreams of the proxy")

func transparent(c *nomad.ConsulConnect) bool {
	return c.SidecarService != nil && c.SidecarService.Proxy != nil && c.SidecarService.Proxy.TransparentProxy != nil
}

// connectUntilStopped connects the allocation. A stop meanwhile ends plugins that hang. For an allocation that had to
// stop before, the network is connected first, since its tasks may run.
func (h *networkHook) connectUntilStopped(ctx context.Context, a *nomad.Allocation, ask *nomad.NetworkResource,
	path string) (*nomad.AllocNetworkStatus, error) {
	select {
	case <-h.start.Stopped():
	default:
		var over func()
		ctx, over = untilStopped(ctx, h.start)
		defer over()
	}
	status, err := h.connect.Connect(ctx, a, ask, path)
	if err != nil {
		return nil, fmt.Errorf("failed to configure networking for alloc: %w", err)
	}
	return status, nil
}

// Delays between attempts to find the network of running tasks.
const (
	networkAgain    = 250 * time.Millisecond
	networkAgainMax = 30 * time.Second
)

// create returns the network of the allocation. Restored processes may run in it.
func (h *networkHook) create(ctx context.Context, group *nomad.TaskGroup, hostname string, restored bool) (*drivers.GroupNetwork, error) {
	by, err := h.creator(group)
	if err != nil {
		return nil, err
	}
	if by != nil {
		if h.created, err = h.createBy(ctx, by, hostname, restored); err != nil {
			return nil, fmt.Errorf("create the network of the group: %w", err)
		}
		return h.created, nil
	}
	if h.networks == nil {
		return nil, errors.New("this client does not create network namespaces")
	}
	path, err := h.networks.Make(ctx, h.alloc)
	return &drivers.GroupNetwork{Path: path}, err
}

// createBy creates the network with a driver. If restored processes may run in it, it repeats an attempt that failed, for
// example because a daemon does not answer: the error would end the processes.
func (h *networkHook) createBy(ctx context.Context, by drivers.NetworkCreator, hostname string,
	restored bool) (*drivers.GroupNetwork, error) {
	again := backoff.Backoff{Min: networkAgain, Max: networkAgainMax}
	for {
		n, err := by.CreateNetwork(ctx, h.alloc, hostname)
		if err == nil || !restored {
			return n, err
		}
		h.log.Warn("find the network of running tasks", "alloc", h.alloc, "err", err)
		if again.Wait(ctx) != nil {
			return nil, err
		}
	}
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

// joinable returns an error for the first task whose driver cannot join the group's network, or not
// with a hostname.
func (h *networkHook) joinable(group *nomad.TaskGroup) error {
	for _, t := range group.Tasks {
		d, err := h.drivers.Driver(t.Driver)
		if err != nil {
			return fmt.Errorf("task %q: %w", t.Name, err)
		}
		if !slices.Contains(d.Capabilities().Networks, drivers.NetworkGroup) {
			return fmt.Errorf("task %q: driver %q can't join the group's network of mode %q: use mode \"host\", or another driver", t.Name, t.Driver,
				group.NetworkMode())
		}
		if c := d.Capabilities(); group.Networks[0].Hostname != "" && !c.Hostname && !c.MustCreateNetwork {
			return fmt.Errorf("task %q: hostname is not currently supported on driver %s", t.Name, t.Driver)
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

// Postrun removes the network and its namespace, in which no process is left.
func (h *networkHook) Postrun(ctx context.Context) error { return h.remove(ctx) }

// Destroy removes the network and its namespace if no agent ran Postrun.
func (h *networkHook) Destroy(ctx context.Context) error { return h.remove(ctx) }

func (h *networkHook) remove(ctx context.Context) error {
	if h.connect != nil {
		if err := h.connect.Disconnect(ctx, h.alloc); err != nil {
			// The record stays, and the next agent tries again.
			h.log.Warn("remove the network of an allocation", "alloc", h.alloc, "err", err)
		}
	}
	var errs []error
	if h.networks != nil {
		errs = append(errs, h.networks.Remove(h.alloc))
	}
	if h.group == nil || h.group.NetworkMode() == nomad.NetworkModeHost || h.removed {
		return errors.Join(errs...)
	}
	by, err := h.creator(h.group)
	if err == nil && by != nil {
		err = by.DestroyNetwork(ctx, h.alloc, h.created)
	}
	h.removed = err == nil
	return errors.Join(append(errs, err)...)
}
