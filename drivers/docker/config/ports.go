package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// CheckPorts checks the ports of a task against the network blocks of its job. The config has
// references that are not interpolated: values with them are checked on the node.
func CheckPorts(config map[string]any, net *drivers.NetworkAsk) error {
	o, err := maskedOptions(config)
	if err != nil {
		return err
	}
	if _, err = o.Published(net); err != nil {
		return fmt.Errorf("config of %s task: %w", Name, err)
	}
	return nil
}

// checkPorts checks the labels without the network blocks.
func (o *Task) checkPorts() error {
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

// Published returns the ports that the daemon publishes for a container, with the port in the container
// in To. In the network of a group the client publishes the ports, and with the network of the node a task
// listens on them itself. Source: compat/docker.md, section 10.
func (o *Task) Published(net *drivers.NetworkAsk) ([]drivers.Port, error) {
	list, err := o.mapped(net)
	if err != nil {
		return nil, err
	}
	ofGroup := slices.IndexFunc(list, func(p drivers.Port) bool { return !p.Own })
	switch {
	case net.Group && o.NetworkMode == "":
		return nil, nil
	case o.NetworkMode == "none" && len(o.ports)+len(o.PortMap) > 0:
		return nil, fmt.Errorf("network_mode is none, so no port can be published: remove ports and port_map, or network_mode")
	case o.NetworkMode == "none":
		return nil, nil
	case o.NetworkMode == "host":
		return nil, unmapped(list)
	case net.Group && ofGroup >= 0:
		return nil, fmt.Errorf("ports: the group's network publishes port %q: remove network_mode, or the port from ports", list[ofGroup].Label)
	}
	return list, nil
}

// mapped returns the ports that ports lists, and all of the task's own network block, with the port in
// the container in To.
func (o *Task) mapped(net *drivers.NetworkAsk) (out []drivers.Port, err error) {
	owners := map[string]bool{} // by label: whether the port is the task's own
	for _, p := range net.Ports {
		owners[p.Label] = p.Own
		inside := o.PortMap[p.Label]
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
	}{{"ports", o.ports}, {"port_map", slices.Sorted(maps.Keys(o.PortMap))}} {
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
			return fmt.Errorf("port %q is %d in the container, but with network_mode host a task uses the host port: "+
				"remove to and port_map, or network_mode", p.Label, p.To)
		}
	}
	return nil
}
