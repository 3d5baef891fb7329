package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// endpoint is the place of a container in a network of the daemon that its task has chosen.
//
//	find ─▶ allowed ─▶ create ─▶ check: names and MAC are free ─▶ start ─▶ check again, and compare
//
// The network of others has names and addresses of others. Two containers that start at a time are both created before
// they are checked, so that one of them sees the other.
type endpoint struct {
	network string // its name
	id      string // of the network
	names   []string
	mac     net.HardwareAddr
	asked   *network.EndpointSettings
	of      string // namespace of the job
}

// endpoint returns the endpoint of a task, nil if its container has no network of its own or asks for nothing.
func (d *Driver) endpoint(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (*endpoint, error) {
	name := o.Joins()
	if name == "" && (ofGroup(cfg, o) || o.Endpoint.MAC == nil) {
		return nil, nil
	}
	e := &endpoint{network: name, names: o.Names(), mac: o.Endpoint.MAC, of: cfg.Namespace,
		asked: &network.EndpointSettings{Aliases: o.Endpoint.Aliases, MacAddress: network.HardwareAddr(o.Endpoint.MAC)}}
	if o.Endpoint.IPv4.IsValid() || o.Endpoint.IPv6.IsValid() {
		e.asked.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: o.Endpoint.IPv4, IPv6Address: o.Endpoint.IPv6}
	}
	if name == "" {
		e.network = network.NetworkBridge
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.NetworkInspect(ctx, e.network, client.NetworkInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err) || err == nil && found.Network.Name != e.network: // it is found by its ID too
		return nil, &drivers.RecoverableError{Err: fmt.Errorf("network_mode: the daemon has no network with the name %q: "+
			"create it with docker network create", e.network)}
	case err != nil:
		return nil, &drivers.RecoverableError{Err: fmt.Errorf("network_mode: find the network %q: %w", e.network, err)}
	}
	e.id = found.Network.ID
	if name == "" {
		return e, nil
	}
	return e, d.set.AllowNetwork(name, found.Network.Driver)
}

// set adds the endpoint to the options of a container.
func (e *endpoint) set(spec *client.ContainerCreateOptions) {
	if e != nil {
		spec.NetworkingConfig = &network.NetworkingConfig{
			EndpointsConfig: map[string]*network.EndpointSettings{spec.HostConfig.NetworkMode.NetworkName(): e.asked}}
	}
}

// free returns an error if another container of the network, or an interface of the node, has what the endpoint asks for.
// Containers of the namespace can share names.
func (d *Driver) free(ctx context.Context, e *endpoint, id string) error {
	if e == nil || len(e.names) == 0 && e.mac == nil {
		return nil
	}
	if err := e.notOfNode(); err != nil {
		return err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	list, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("network", e.network)})
	if err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("list the containers of network %q: %w", e.network, err)}
	}
	for _, c := range list.Items {
		if c.ID == id || c.State == container.StateExited || c.State == container.StateDead {
			continue
		}
		found, err := d.api.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if cerrdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return &drivers.RecoverableError{Err: fmt.Errorf("inspect a container of network %q: %w", e.network, err)}
		}
		if err := d.differ(e, &found); err != nil {
			return &drivers.RecoverableError{Err: err}
		}
	}
	return nil
}

// notOfNode returns an error if the MAC address is that of an interface of the node, such as the network's bridge.
func (e *endpoint) notOfNode() error {
	if e.mac == nil {
		return nil
	}
	own, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list the interfaces of the node: %w", err)
	}
	for _, i := range own {
		if bytes.Equal(i.HardwareAddr, e.mac) {
			return fmt.Errorf("mac_address %v is that of the interface %s of the node", e.mac, i.Name)
		}
	}
	return nil
}

// differ returns an error if a container of the network has a name or the MAC address of an endpoint.
func (d *Driver) differ(e *endpoint, other *client.ContainerInspectResult) error {
	c := &other.Container
	have := container.Config{}
	if c.Config != nil {
		have = *c.Config
	}
	names := []string{strings.TrimPrefix(c.Name, "/"), have.Hostname, c.ID[:min(len(c.ID), shortID)]}
	var macs []net.HardwareAddr
	if c.NetworkSettings != nil && c.NetworkSettings.Networks[e.network] != nil {
		at := c.NetworkSettings.Networks[e.network]
		names = slices.Concat(names, at.Aliases, at.DNSNames)
		macs = append(macs, net.HardwareAddr(at.MacAddress))
	}
	var older struct{ Config struct{ MacAddress string } } // before API 1.44
	if json.Unmarshal(other.Raw, &older) == nil && older.Config.MacAddress != "" {
		mac, _ := net.ParseMAC(older.Config.MacAddress) // the daemon has parsed it
		macs = append(macs, mac)
	}
	if e.mac != nil && slices.ContainsFunc(macs, func(m net.HardwareAddr) bool { return bytes.Equal(m, e.mac) }) {
		return fmt.Errorf("mac_address %v is that of another container of network %q", e.mac, e.network)
	}
	if have.Labels[agentLabel] == d.cfg.Agent && have.Labels[namespaceLabel] == e.of {
		return nil
	}
	for _, name := range e.names {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return fmt.Errorf("the name %q in network %q is that of a container outside of namespace %s: use another in network_aliases or hostname",
				name, e.network, e.of)
		}
	}
	return nil
}

// shortID is the length of the part of a container's ID that is a name of it.
const shortID = 12

// compareEndpoint returns an error if a started container has another endpoint than its task asks for.
func (d *Driver) compareEndpoint(ctx context.Context, e *endpoint, id string) error {
	if e == nil {
		return nil
	}
	if err := d.free(ctx, e, id); err != nil {
		return err
	}
	c, err := d.running(ctx, id)
	if err != nil || c == nil {
		return err
	}
	if c.NetworkSettings == nil || len(c.NetworkSettings.Networks) != 1 || c.NetworkSettings.Networks[e.network] == nil {
		return differs{fmt.Errorf("container %s has other networks than %q", id, e.network)}
	}
	have, ip := c.NetworkSettings.Networks[e.network], e.asked.IPAMConfig
	switch {
	case have.NetworkID != e.id:
		return differs{fmt.Errorf("container %s is in another network with the name %q", id, e.network)}
	case e.mac != nil && !bytes.Equal(have.MacAddress, e.mac):
		return differs{fmt.Errorf("container %s has another MAC address than mac_address", id)}
	case ip != nil && (ip.IPv4Address.IsValid() && have.IPAddress != ip.IPv4Address ||
		ip.IPv6Address.IsValid() && have.GlobalIPv6Address != ip.IPv6Address):
		return differs{fmt.Errorf("container %s has another address than ipv4_address or ipv6_address", id)}
	}
	return nil
}
