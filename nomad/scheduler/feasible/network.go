package feasible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// network demands the mode of a network and the host networks of its ports.
func (g *Group) network(ask *nomad.NetworkResource) {
	mode := ask.Mode
	d := demand{check: CheckNetwork, met: func(n *nomad.Node) bool { return hasNetworkMode(n, mode) }}
	switch mode {
	case nomad.NetworkModeNone:
		d.met = func(n *nomad.Node) bool { return n.Attributes[nomad.AttrNetworkNone] != "false" }
	case "":
		mode = nomad.NetworkModeHost
	}
	d.need = fmt.Sprintf("network mode %q", mode)
	d.text = fmt.Sprintf("missing network %q", mode)
	g.add(false, d)
	for _, p := range slices.Concat(ask.ReservedPorts, ask.DynamicPorts) {
		if hostNetwork(&p) != defaultNetwork {
			g.hostNetwork(&p)
		}
	}
}

// hostNetwork demands the host network of a port.
func (g *Group) hostNetwork(p *nomad.Port) {
	template, label := p.HostNetwork, p.Label
	g.add(hasUniqueTarget(template), demand{check: CheckNetwork, need: fmt.Sprintf("host network %q for port %q", template, label),
		met: func(n *nomad.Node) bool {
			name, ok := interpolate(template, n)
			return ok && hasHostNetwork(n, name)
		},
		reason: func(n *nomad.Node) string {
			name, ok := interpolate(template, n)
			if !ok {
				return fmt.Sprintf("invalid host network %q template for port %q", template, label)
			}
			return fmt.Sprintf("missing host network %q for port %q", name, label)
		}})
}

// hasNetworkMode reports whether the node has a network of the mode. A network without a mode is of mode host.
func hasNetworkMode(n *nomad.Node, mode string) bool {
	if n.NodeResources == nil {
		return false
	}
	is := func(have string) bool { return have == mode || have == "" && mode == nomad.NetworkModeHost }
	return slices.ContainsFunc(n.NodeResources.NodeNetworks, func(r *nomad.NodeNetworkResource) bool { return r != nil && is(r.Mode) }) ||
		slices.ContainsFunc(n.NodeResources.Networks, func(r *nomad.NetworkResource) bool { return r != nil && is(r.Mode) })
}

func hasHostNetwork(n *nomad.Node, name string) bool {
	if n.NodeResources == nil {
		return false
	}
	for _, r := range n.NodeResources.NodeNetworks {
		if r != nil && slices.ContainsFunc(r.Addresses, func(a nomad.NodeNetworkAddress) bool { return a.Alias == name }) {
			return true
		}
	}
	return false
}

// hostNetwork returns the host network of a port as in the job.
func hostNetwork(p *nomad.Port) string {
	if p.HostNetwork == "" {
		return defaultNetwork
	}
	return p.HostNetwork
}

// interpolate replaces the targets in a text, such as "net-${meta.rack}", by their values on the node. ok is false
// if the node does not have one of them.
func interpolate(text string, n *nomad.Node) (result string, ok bool) {
	for {
		before, rest, found := strings.Cut(text, "${")
		result += before
		if !found {
			return result, true
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := ParseTarget("${" + name + "}").Value(n)
		if !closed || !known {
			return "", false
		}
		result, text = result+value, after
	}
}

// hasUniqueTarget reports whether the result of interpolate can differ between nodes of one computed class.
func hasUniqueTarget(text string) bool {
	for {
		_, rest, found := strings.Cut(text, "${")
		if !found {
			return false
		}
		if nodeclass.IsUniqueTarget("${" + rest) {
			return true
		}
		text = rest
	}
}
