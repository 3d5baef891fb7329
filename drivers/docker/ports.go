package docker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/open-nomad/open-nomad/internal/sockets"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// CheckPorts checks the ports of a task against the network blocks of its job. The config has
// references that are not interpolated: values with them are checked on the node.
func CheckPorts(config map[string]any, net *drivers.NetworkAsk) error {
	o, err := maskedOptions(config)
	if err != nil {
		return err
	}
	if _, err = o.published(net); err != nil {
		return fmt.Errorf("config of %s task: %w", Name, err)
	}
	return nil
}

// checkPorts checks the labels without the network blocks.
func (o *options) checkPorts() error {
	for i, label := range o.ports {
		if slices.Contains(o.ports[:i], label) {
			return fmt.Errorf("ports: duplicate label %q: list it once", label)
		}
	}
	return nil
}

// readPortMap reads port_map: the port in the container by label.
func readPortMap(f *drivers.Fields) map[string]int {
	given := texts(f, "port_map")
	out := map[string]int{}
	for _, label := range slices.Sorted(maps.Keys(given)) {
		number, err := strconv.Atoi(given[label])
		if err != nil || number < 1 || number > math.MaxUint16 {
			f.Fail("port_map", fmt.Errorf("%s is %q: use a port from 1 to 65535", label, given[label]))
			return nil
		}
		out[label] = number
	}
	return out
}

// published returns the ports that the daemon publishes for a container, with the port in the container
// in To. In the network of a group the client publishes the ports, and with the network of the node a task
// listens on them itself. Source: compat/docker.md, section 10.
func (o *options) published(net *drivers.NetworkAsk) ([]drivers.Port, error) {
	list, err := o.mapped(net)
	if err != nil {
		return nil, err
	}
	ofGroup := slices.IndexFunc(list, func(p drivers.Port) bool { return !p.Own })
	switch {
	case net.Group && o.networkMode == "":
		return nil, nil
	case o.networkMode == "none" && len(o.ports)+len(o.portMap) > 0:
		return nil, fmt.Errorf("network_mode is none, so no port can be published: remove ports and port_map, or network_mode")
	case o.networkMode == "none":
		return nil, nil
	case o.networkMode == "host":
		return nil, unmapped(list)
	case net.Group && ofGroup >= 0:
		return nil, fmt.Errorf("ports: the group's network publishes port %q: remove network_mode, or the port from ports", list[ofGroup].Label)
	}
	return list, nil
}

// mapped returns the ports that ports lists, and all of the task's own network block, with the port in
// the container in To.
func (o *options) mapped(net *drivers.NetworkAsk) (out []drivers.Port, err error) {
	owners := map[string]bool{} // by label: whether the port is the task's own
	for _, p := range net.Ports {
		owners[p.Label] = p.Own
		inside := o.portMap[p.Label]
		switch {
		case inside > 0 && !p.Own:
			return nil, fmt.Errorf("port_map cannot map group network ports: list %q in ports, and set to = %d in its port block", p.Label, inside)
		case !p.Own && !slices.Contains(o.ports, p.Label):
			continue
		case inside > 0:
			p.To = inside
		case p.To <= 0:
			p.To = p.Value
		}
		out = append(out, p)
	}
	for _, option := range []struct {
		name   string
		labels []string
	}{{"ports", o.ports}, {"port_map", slices.Sorted(maps.Keys(o.portMap))}} {
		for _, label := range option.labels {
			if _, ok := owners[label]; !ok {
				return nil, fmt.Errorf("%s: port %q not found, check network block: it has %s", option.name, label, labelsOf(owners))
			}
		}
	}
	return out, nil
}

func labelsOf(ports map[string]bool) string {
	if len(ports) == 0 {
		return "no ports"
	}
	return "the ports " + strings.Join(slices.Sorted(maps.Keys(ports)), ", ")
}

// unmapped returns an error for a port that has another number in the container. A task with the network
// of the node uses the port of the node.
func unmapped(list []drivers.Port) error {
	for _, p := range list {
		if p.To != p.Value {
			return fmt.Errorf("port %q is %d in the container, but with network_mode host a task uses the host port: remove to and port_map, or network_mode", p.Label, p.To)
		}
	}
	return nil
}

// ownPorts returns the published ports of the task's own network block, by label. spec has checked them.
func (o *options) ownPorts(cfg *drivers.TaskConfig) map[string]int {
	list, err := o.published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
	out := map[string]int{}
	for _, p := range list {
		if err == nil && p.Own {
			out[p.Label] = p.To
		}
	}
	return out
}

// bindings returns the ports as the daemon takes them, for TCP and UDP.
func bindings(list []drivers.Port) (network.PortMap, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := network.PortMap{}
	for _, p := range list {
		addr, err := netip.ParseAddr(p.HostIP)
		if err != nil { // the daemon would publish it at all addresses
			return nil, fmt.Errorf("publish port %q: the address %q of the node is not an IP address", p.Label, p.HostIP)
		}
		if p.Value < 1 || p.Value > math.MaxUint16 || p.To < 1 || p.To > math.MaxUint16 {
			return nil, fmt.Errorf("publish port %q: %d or %d is not a port", p.Label, p.Value, p.To)
		}
		for _, proto := range []network.IPProtocol{network.TCP, network.UDP} {
			inside, _ := network.PortFrom(uint16(p.To), proto)
			out[inside] = append(out[inside], network.PortBinding{HostIP: addr, HostPort: strconv.Itoa(p.Value)})
		}
	}
	return out, nil
}

// free returns an error if a program of the node listens on a port that the daemon is to publish. The daemon's rules
// take precedence over such a program, and whether it refuses the port depends on its version and settings.
func (o *options) free(ctx context.Context, cfg *drivers.TaskConfig) error {
	list, err := o.published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
	if err != nil {
		return err
	}
	var ports []sockets.Port
	for _, p := range list {
		addr, _ := netip.ParseAddr(p.HostIP) // bindings reports an error
		for _, proto := range []string{"tcp", "udp"} {
			ports = append(ports, sockets.Port{Network: proto, Number: p.Value, IP: addr})
		}
	}
	if err := sockets.Free(ctx, ports); err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("publish a port of task %s: %w", cfg.Name, err)}
	}
	return nil
}

// publish sets the ports of a container.
func (o *options) publish(cfg *drivers.TaskConfig, c *container.Config, host *container.HostConfig) error {
	list, err := o.published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
	if err != nil {
		return err
	}
	if host.PortBindings, err = bindings(list); err != nil || len(list) == 0 {
		return err
	}
	c.ExposedPorts = network.PortSet{}
	for inside := range host.PortBindings {
		c.ExposedPorts[inside] = struct{}{}
	}
	return nil
}

// environment returns the variables of a task: port_map sets the port on which the task listens.
func (o *options) environment(env map[string]string) map[string]string {
	if len(o.portMap) == 0 {
		return env
	}
	out := map[string]string{}
	for name, value := range env {
		out[name] = value
	}
	for label, inside := range o.portMap {
		out["NOMAD_PORT_"+strings.Map(variableRune, label)] = strconv.Itoa(inside)
	}
	return out
}

// variableRune returns a character of a label as names of variables have it.
func variableRune(r rune) rune {
	if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}
