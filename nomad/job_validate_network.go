package nomad

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Modes of a group's network: that of the node, and one of the allocation's own that
// leads nowhere. Further ones are absent.
const (
	NetworkModeHost   = "host"
	NetworkModeNone   = "none"
	NetworkModeBridge = "bridge"
)

// AttrNetworkNone is the attribute of a node that says "false" when it can make no network
// of mode none. Nodes that know nothing of it can.
const AttrNetworkNone = "network.none"

// NetworkMode is the mode of the group's network.
func (tg *TaskGroup) NetworkMode() string {
	for _, n := range tg.Networks {
		if n.Mode != "" {
			return n.Mode
		}
	}
	return NetworkModeHost
}

// validateNetworks checks the ports of all networks of the group and its tasks
// together, since they share one set of labels and the addresses of one node.
func (tg *TaskGroup) validateNetworks(f *faults) {
	p := portRules{f: f, labels: map[string]bool{}, static: map[Port]string{}}
	mode := tg.NetworkMode()
	for _, n := range tg.Networks {
		refuseAbsent(f, absentForNetworks, n)
		p.network(n)
		switch {
		case n.Mode == "" || n.Mode == NetworkModeHost || n.Mode == NetworkModeNone || n.Mode == NetworkModeBridge || strings.HasPrefix(n.Mode, "cni/"):
		default:
			f.add("mode of network is %q: use host or none", n.Mode)
		}
		if n.Mode != mode && (n.Mode != "" || mode != NetworkModeHost) {
			f.add("its networks have different modes: a group has one network")
		}
		if n.DNS != nil {
			if err := n.DNS.Check(); err != nil {
				f.add("%v", err)
			}
		}
	}
	for _, t := range tg.Tasks {
		if t.Resources != nil {
			p.task(f.in("task", t.Name), t.Resources.Networks, mode)
		}
		if t.Driver == openDriver {
			tg.refuseOpen(f.in("task", t.Name), t, mode)
		}
	}
}

// openDriver runs tasks in the midst of the node: it gives none a network or a view of
// files of its own. Of other drivers the nodes know what they can.
const openDriver = "raw_exec"

func (tg *TaskGroup) refuseOpen(f *faults, t *Task, mode string) {
	lack := func(asked bool, what string) {
		if asked {
			f.add("driver %q can't %s: use another driver, such as exec2", t.Driver, what)
		}
	}
	lack(len(t.VolumeMounts) > 0, "mount volumes")
	lack(mode != NetworkModeHost, fmt.Sprintf("join the group's network of mode %q", mode))
	lack(slices.ContainsFunc(tg.Networks, func(n *NetworkResource) bool { return n.DNS != nil }), "have a resolv.conf of its own, as dns of the group's network asks for")
}

// portRules knows the ports that were seen so far.
type portRules struct {
	f      *faults
	labels map[string]bool
	static map[Port]string
}

// task checks the networks of a task, which are older than those of groups: ports of
// the node, and nothing else.
func (p *portRules) task(f *faults, networks Networks, group string) {
	if len(networks) > 1 {
		f.add("resources have %d networks: one is the most", len(networks))
	}
	for _, n := range networks {
		switch {
		case n.Mode != "" && n.Mode != NetworkModeHost || n.DNS != nil || n.CNI != nil || n.Hostname != "":
			f.add("mode, dns, cni and hostname are for the network of a group: put the network block there")
		case group != NetworkModeHost:
			f.add("the group's network has mode %q, so ports of the node (network in resources) would lead to nothing: remove them", group)
		}
		// Labels of a task are its own, but for those of the group.
		within := portRules{f: f, labels: maps.Clone(p.labels), static: p.static}
		within.network(n)
	}
}

func (p *portRules) network(n *NetworkResource) {
	f := p.f
	if n.Mode == NetworkModeNone && len(n.ReservedPorts)+len(n.DynamicPorts) > 0 {
		f.add("a network with mode \"none\" is reached by nobody, so it has no ports: remove them, or use mode \"host\"")
	}
	for _, port := range n.ReservedPorts {
		p.port(&port)
		if port.Value < 1 || port.Value > math.MaxUint16 {
			f.add("port %q has the static number %d: it must be 1 to 65535", port.Label, port.Value)
			continue
		}
		key := Port{Value: port.Value, HostNetwork: port.HostNetwork}
		if other, taken := p.static[key]; taken && !port.IgnoreCollision {
			f.add("the ports %q and %q have the same static number %d: change one", other, port.Label, port.Value)
		}
		p.static[key] = port.Label
	}
	for _, port := range n.DynamicPorts {
		p.port(&port)
		if port.Value != 0 {
			f.add("port %q is dynamic but has the number %d: remove it", port.Label, port.Value)
		}
	}
}

func (p *portRules) port(port *Port) {
	if !identityName.MatchString(port.Label) {
		p.f.add("the port label %q is malformed: use 1 to 128 letters, digits, - and _", port.Label)
	}
	if p.labels[port.Label] {
		p.f.add("there are two ports with the label %q: rename one", port.Label)
	}
	p.labels[port.Label] = true
	if port.To < -1 || port.To > math.MaxUint16 {
		p.f.add("port %q leads to %d: it must be 1 to 65535, or -1 for the number it has on the host", port.Label, port.To)
	}
}

// What may stand in a resolv.conf: one word each, so that none becomes another line.
var (
	dnsName   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	dnsOption = regexp.MustCompile(`^[a-z0-9-]{1,64}(:[0-9]{1,5})?$`)
	dnsZone   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// maxDNS bounds each list of a dns block.
const maxDNS = 32

// Check says what is wrong with a dns block. What holds a reference is left for the
// node, which resolves it and checks again.
func (d *DNSConfig) Check() error {
	return errors.Join(
		checkWords("servers", d.Servers, "which is no IP address", isServer),
		checkWords("searches", d.Searches, "which is no domain", dnsName.MatchString),
		checkWords("options", d.Options, "which is no option: use a word such as rotate, or ndots:2", dnsOption.MatchString))
}

func checkWords(what string, list []string, wrong string, ok func(string) bool) error {
	if len(list) > maxDNS {
		return fmt.Errorf("%s of dns has %d entries, %d are the most", what, len(list), maxDNS)
	}
	for _, s := range list {
		if !strings.Contains(s, "${") && !ok(s) {
			return fmt.Errorf("%s of dns has %q, %s", what, s, wrong)
		}
	}
	return nil
}

func isServer(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && (addr.Zone() == "" || dnsZone.MatchString(addr.Zone()))
}
