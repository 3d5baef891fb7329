package jobrules

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// validateNetworks checks the ports of all networks of the group and its tasks together. They share one set of
// labels and the addresses of one node.
func validateNetworks(tg *nomad.TaskGroup, f *faults) {
	p := portRules{f: f, labels: map[string]bool{}, static: map[nomad.Port]string{}}
	mode := tg.NetworkMode()
	for _, n := range tg.Networks {
		refuseAbsent(f, absentForNetworks, n)
		p.network(n)
		switch {
		case n.Mode == "" || n.Mode == nomad.NetworkModeHost || n.Mode == nomad.NetworkModeNone || n.Mode == nomad.NetworkModeBridge || strings.HasPrefix(n.Mode, "cni/"):
		default:
			f.add("mode of network is %q: use host or none", n.Mode)
		}
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
		if t.Resources != nil {
			p.task(f.in("task", t.Name), t.Resources.Networks, mode)
		}
	}
}

// portRules records the ports that were already checked.
type portRules struct {
	f      *faults
	labels map[string]bool
	static map[nomad.Port]string
}

// task checks the networks of a task. This older form allows only ports of the node.
func (p *portRules) task(f *faults, networks nomad.Networks, group string) {
	if len(networks) > 1 {
		f.add("resources have %d networks: the limit is 1", len(networks))
	}
	for _, n := range networks {
		switch {
		case n.Mode != "" && n.Mode != nomad.NetworkModeHost || n.DNS != nil || n.CNI != nil || n.Hostname != "":
			f.add("mode, dns, cni and hostname are only valid in the network block of a group: move the block there")
		case group != nomad.NetworkModeHost:
			f.add("the group's network has mode %q, so host ports (network in resources) do not reach the task: remove them", group)
		}
		// Labels are local to the task, except for those of the group.
		within := portRules{f: f, labels: maps.Clone(p.labels), static: p.static}
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
	if !identityName.MatchString(port.Label) {
		p.f.add("the port label %q is malformed: use 1 to 128 letters, digits, - and _", port.Label)
	}
	if p.labels[port.Label] {
		p.f.add("duplicate port label %q: rename one", port.Label)
	}
	p.labels[port.Label] = true
	if port.To < -1 || port.To > math.MaxUint16 {
		p.f.add("port %q has to = %d: it must be 1 to 65535, or -1 for the host port", port.Label, port.To)
	}
}

// The valid entries of a resolv.conf: single words, so that no entry adds a line.
var (
	dnsName   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	dnsOption = regexp.MustCompile(`^[a-z0-9-]{1,64}(:[0-9]{1,5})?$`)
	dnsZone   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// maxDNS is the maximum length of each list of a dns block.
const maxDNS = 32

// CheckDNS returns the errors of a dns block. Entries with references are skipped: the node resolves them
// and checks again.
func CheckDNS(d *nomad.DNSConfig) error {
	return errors.Join(
		checkWords("servers", d.Servers, "which is not an IP address", isServer),
		checkWords("searches", d.Searches, "which is not a domain name", dnsName.MatchString),
		checkWords("options", d.Options, "which is not an option: use a word such as rotate, or ndots:2", dnsOption.MatchString))
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
	return err == nil && (addr.Zone() == "" || dnsZone.MatchString(addr.Zone()))
}
