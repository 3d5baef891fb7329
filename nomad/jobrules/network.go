package jobrules

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/egress"
)

// validateNetworks checks the ports of all networks of the group and its tasks together. They share one set of
// labels and the addresses of one node.
func validateNetworks(tg *nomad.TaskGroup, f *faults) {
	p := portRules{f: f, labels: map[string]bool{}, static: map[nomad.Port]string{}}
	mode := tg.NetworkMode()
	for _, n := range tg.Networks {
		p.network(n)
		checkMode(f, n)
		checkReachable(f, n)
		if n.Mode != mode && (n.Mode != "" || mode != nomad.NetworkModeHost) {
			f.add("its networks have different modes: a group can have only one network")
		}
		if n.DNS != nil {
			if err := CheckDNS(n.DNS); err != nil {
				f.add("%v", err)
			}
		}
	}
	for _, t := range tg.Tasks {
		checkLeaving(f.in("task", t.Name), tg, t)
		if t.Resources != nil {
			p.task(f.in("task", t.Name), t.Resources.Networks, mode)
		}
	}
}

// checkLeaving refuses a task that leaves the network of its group if that is separated from others.
func checkLeaving(f *faults, tg *nomad.TaskGroup, t *nomad.Task) {
	separated := slices.ContainsFunc(tg.Networks, func(n *nomad.NetworkResource) bool { return n.Isolate || n.Egress != nil })
	if separated && t.LeavesNetwork() {
		f.add("network_mode is %q, but isolate and egress of the group would not apply to it: remove it, or use none",
			fmt.Sprint(t.Config["network_mode"]))
	}
}

// onHost reports whether a network is that of the node.
func onHost(n *nomad.NetworkResource) bool { return n.Mode == "" || n.Mode == nomad.NetworkModeHost }

// checkMode checks the mode of a network, and the fields that only some modes have.
func checkMode(f *faults, n *nomad.NetworkResource) {
	name, isCNI := strings.CutPrefix(n.Mode, nomad.NetworkModeCNI)
	switch {
	case onHost(n), n.Mode == nomad.NetworkModeNone, n.Mode == nomad.NetworkModeBridge:
	case isCNI && cniName().MatchString(name):
	default:
		f.add("mode of network is %q: use host, none, bridge, or cni/ and the name of a CNI configuration", n.Mode)
	}
	if n.Hostname != "" {
		switch {
		case onHost(n):
			f.add("hostname of network is %q, but tasks on the host's network have its name: remove it, or use mode \"bridge\"", n.Hostname)
		case !strings.Contains(n.Hostname, "${") && !ValidHostname(n.Hostname):
			f.add("hostname of network is %q, which is not a DNS name: use letters, digits, - and . only", n.Hostname)
		}
	}
	checkArgs(f, n)
	if n.Mode != nomad.NetworkModeBridge && (n.Isolate || n.Egress != nil) {
		f.add("isolate and egress of network need mode \"bridge\": remove them, or use that mode")
	}
	checkEgress(f, n.Egress)
}

func checkArgs(f *faults, n *nomad.NetworkResource) {
	if n.CNI == nil {
		return
	}
	for key, value := range n.CNI.Args {
		if key == "" || strings.ContainsAny(key+value, ";\x00\n") || strings.Contains(key, "=") {
			f.add("args of cni has the entry %q: a key must not be empty or contain =, and neither key nor value may contain ;", key)
		}
		if n.Mode == nomad.NetworkModeBridge && slices.Contains(nomad.CNIAddressArgs, key) {
			f.add("args of cni has %s, but allocations do not choose their addresses on the bridge: remove it, or use mode \"cni/\" and a name", key)
		}
	}
}

func checkEgress(f *faults, e *nomad.NetworkEgress) {
	if e == nil {
		return
	}
	if len(e.Allow) > maxEgress {
		f.add("allow of egress has %d entries: the limit is %d", len(e.Allow), maxEgress)
		return
	}
	for _, text := range e.Allow {
		if _, err := egress.Parse(text); err != nil {
			f.add("allow of egress: %v", err)
		}
	}
}

// checkReachable checks the fields of ports that depend on the mode.
func checkReachable(f *faults, n *nomad.NetworkResource) {
	for _, port := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
		if !onHost(n) && port.IgnoreCollision {
			f.add("port %q has ignore_collision, which needs the host's network: remove it", port.Label)
		}
	}
}

// ValidHostname reports whether a name can be the host name of a group.
func ValidHostname(name string) bool { return len(name) <= maxHostname && hostName().MatchString(name) }

// portRules records the ports that were already checked.
type portRules struct {
	f      *faults
	labels map[string]bool
	group  map[string]bool // labels of the group, for a network of a task
	static map[nomad.Port]string
}

// task checks the networks of a task. This older form allows only ports of the node.
func (p *portRules) task(f *faults, networks nomad.Networks, group string) {
	if len(networks) > 1 {
		f.add("resources have %d networks: the limit is 1", len(networks))
	}
	for _, n := range networks {
		switch {
		case n.Mode != "" && n.Mode != nomad.NetworkModeHost || n.DNS != nil || n.CNI != nil || n.Hostname != "" || n.Isolate || n.Egress != nil:
			f.add("mode, dns, cni, hostname, isolate and egress are only valid in the network block of a group: move the block there")
		case group != nomad.NetworkModeHost:
			f.add("the group's network has mode %q, so host ports (network in resources) do not reach the task: remove them", group)
		}
		// Labels are local to the task, except for those of the group.
		within := portRules{f: f, labels: map[string]bool{}, group: p.labels, static: p.static}
		within.network(n)
	}
}

func (p *portRules) network(n *nomad.NetworkResource) {
	f := p.f
	if n.Mode == nomad.NetworkModeNone && len(n.ReservedPorts)+len(n.DynamicPorts) > 0 {
		f.add("a network with mode \"none\" cannot be reached, so it cannot have ports: remove them, or use mode \"host\"")
	}
	for _, port := range n.ReservedPorts {
		p.port(&port)
		if port.Value < 1 || port.Value > math.MaxUint16 {
			f.add("static port %q has the number %d: it must be 1 to 65535", port.Label, port.Value)
			continue
		}
		key := nomad.Port{Value: port.Value, HostNetwork: port.HostNetwork}
		if other, taken := p.static[key]; taken && !port.IgnoreCollision {
			f.add("ports %q and %q have the same static number %d: change one", other, port.Label, port.Value)
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

func (p *portRules) port(port *nomad.Port) {
	if !identityName().MatchString(port.Label) {
		p.f.add("the port label %q is malformed: use 1 to 128 letters, digits, - and _", port.Label)
	}
	if p.labels[port.Label] || p.group[port.Label] {
		p.f.add("duplicate port label %q: rename one", port.Label)
	}
	p.labels[port.Label] = true
	if port.To < -1 || port.To > math.MaxUint16 {
		p.f.add("port %q has to = %d: it must be 1 to 65535, or -1 for the host port", port.Label, port.To)
	}
}

// The valid entries of a resolv.conf: single words, so that no entry adds a line.
var (
	dnsName   = pattern.Lazy(`^[A-Za-z0-9_.-]{1,255}$`)
	dnsOption = pattern.Lazy(`^[a-z0-9-]{1,64}(:[0-9]{1,5})?$`)
	dnsZone   = pattern.Lazy(`^[A-Za-z0-9_.-]{1,64}$`)
)

// cniName is the name of a network of CNI; hostName is that of a host.
var (
	cniName  = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
	hostName = pattern.Lazy(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
)

// Limits: of the kernel for a host name, and of the destinations of a group.
const (
	maxHostname = 64
	maxEgress   = 128
)

// maxDNS is the maximum length of each list of a dns block.
const maxDNS = 32

// CheckDNS returns the errors of a dns block. Entries with references are skipped: the node resolves them
// and checks again.
func CheckDNS(d *nomad.DNSConfig) error {
	return errors.Join(
		checkWords("servers", d.Servers, "which is not an IP address", isServer),
		checkWords("searches", d.Searches, "which is not a domain name", dnsName().MatchString),
		checkWords("options", d.Options, "which is not an option: use a word such as rotate, or ndots:2", dnsOption().MatchString))
}

func checkWords(what string, list []string, wrong string, ok func(string) bool) error {
	if len(list) > maxDNS {
		return fmt.Errorf("%s of dns has %d entries: the limit is %d", what, len(list), maxDNS)
	}
	for _, s := range list {
		if !strings.Contains(s, "${") && !ok(s) {
			return fmt.Errorf("%s of dns contains %q, %s", what, s, wrong)
		}
	}
	return nil
}

func isServer(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && (addr.Zone() == "" || dnsZone().MatchString(addr.Zone()))
}
