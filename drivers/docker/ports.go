package docker

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/internal/sockets"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ownPorts returns the published ports of the task's own network block, by label. spec has checked them.
func ownPorts(o *config.Task, cfg *drivers.TaskConfig) map[string]int {
	list, err := o.Published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
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

// checkFree returns an error if a program of the node listens on a port that the daemon is to publish. The daemon's rules
// take precedence over such a program, and whether it refuses the port depends on its version and settings.
func checkFree(ctx context.Context, o *config.Task, cfg *drivers.TaskConfig) error {
	list, err := o.Published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
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
func publish(o *config.Task, cfg *drivers.TaskConfig, c *container.Config, host *container.HostConfig) error {
	list, err := o.Published(&drivers.NetworkAsk{Group: cfg.NetNS != "", Ports: cfg.Ports})
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
func environment(o *config.Task, env map[string]string) map[string]string {
	if len(o.PortMap) == 0 {
		return env
	}
	out := map[string]string{}
	for name, value := range env {
		out[name] = value
	}
	for label, inside := range o.PortMap {
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
