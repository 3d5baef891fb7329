package taskhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/resolvconf"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// hostsFile and resolvconf.File are the files of the node that a dns block replaces for the task.
const hostsFile = "/etc/hosts"

// dnsHook writes the resolv.conf of the group's dns block, or of its network. In a network namespace
// it also writes a hosts file with the task's host name, except in mode none without a dns block. The
// files are in the task's private directory, which only root can write. The driver mounts them over
// the node's files. Without a dns block, a group on the bridge asks the node's DNS server for services, with the search
// domains and options of the node. A group with a list of destinations, and every group while that server does not
// listen, sees the node's resolv.conf. A driver that applies
// the block itself gets it as it is. It has no effect on tasks that have the files of the node, as those of raw_exec.
type dnsHook struct {
	mounts, itself, host bool
	node                 DNS // nil for none
	control              Control
	reported             bool // see reportNames
}

func newDNSHook(c Config) hook.Hook {
	return &dnsHook{mounts: c.Capabilities.Mounts, itself: c.Capabilities.DNS,
		host: c.Capabilities.FSIsolation == drivers.FSIsolationNone, node: c.DNS, control: c.Control}
}

func (*dnsHook) Name() string { return "dns" }

func (h *dnsHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	group := groupOf(req.Alloc)
	if group == nil || req.Running {
		return nil
	}
	h.reportNames(req, group)
	block := dnsOf(group, req.Network)
	connected := req.Network != nil && group.NetworkMode() != nomad.NetworkModeNone
	if block == nil && connected && (h.mounts || h.itself) {
		block = h.services(ctx, group)
	}
	if block == nil && (!connected || h.itself || !h.mounts) {
		return nil
	}
	if !h.mounts && !h.itself && h.host {
		return nil // its tasks have the files of the node: a warning at registration says so
	}
	if !h.mounts && !h.itself {
		return &Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf(
			"driver %q can't mount a resolv.conf for a task: remove the dns block of the group's network, or use another driver", req.Task.Driver)}
	}
	files := map[string]string{}
	if block != nil {
		dns := resolved(block, req.Env)
		if err := errors.Join(jobrules.CheckDNS(dns), complete(dns)); err != nil {
			return &Fault{Type: nomad.TaskFailedValidation, Err: err}
		}
		if h.itself {
			resp.DNS = &drivers.DNS{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
			return nil
		}
		files[resolvconf.File] = resolvConf(dns, resolvconf.Read())
	}
	if connected {
		files[hostsFile] = hosts(cmp.Or(req.Hostname, nodeName()), req.Network.Address, req.Network.AddressIPv6)
	} else if group.NetworkMode() == nomad.NetworkModeNone {
		files[hostsFile] = hosts(cmp.Or(req.Hostname, nodeName()), "127.0.0.1", "::1")
	}
	return h.write(req, resp, files)
}

// gatewayTimeout is how long a task waits until the listeners of a starting agent were tried.
const gatewayTimeout = 2 * time.Second

// services returns the block of a group that asks the node's DNS server, or nil. A group with a list of destinations
// cannot reach that server, and must not reach others through it. It is the only server: the C library musl asks all of
// them at once, and the first "no such name" applies.
func (h *dnsHook) services(ctx context.Context, group *nomad.TaskGroup) *nomad.DNSConfig {
	if h.node == nil || group.NetworkMode() != nomad.NetworkModeBridge ||
		slices.ContainsFunc(group.Networks, func(n *nomad.NetworkResource) bool { return n.Egress != nil }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, gatewayTimeout)
	defer cancel()
	gateways := h.node.Gateways(ctx)
	if len(gateways) == 0 {
		return nil
	}
	node, block := resolvconf.Read(), &nomad.DNSConfig{Servers: []string{gateways[0].String()}}
	block.Searches = usable(node.Searches, func(all []string) *nomad.DNSConfig { return &nomad.DNSConfig{Searches: all} })
	block.Options = usable(node.Options, func(all []string) *nomad.DNSConfig { return &nomad.DNSConfig{Options: all} })
	return block
}

// usable returns the entries of the node's resolv.conf that a dns block may have. A file such as that of
// systemd-resolved has others, such as the search domain ".".
func usable(entries []string, block func([]string) *nomad.DNSConfig) []string {
	var all []string
	for _, e := range entries {
		next := append(slices.Clone(all), e)
		if !strings.Contains(e, "$") && jobrules.CheckDNS(block(next)) == nil {
			all = next
		}
	}
	return all
}

// write writes the files and lets the driver mount them.
func (h *dnsHook) write(req *TaskPrestartRequest, resp *TaskPrestartResponse, files map[string]string) error {
	private, err := req.Dir.Private()
	if err != nil {
		return setupFault(err)
	}
	defer private.Close()
	for target, text := range files {
		name := path.Base(target)
		if err := private.Replace(name, []byte(text), safefs.File{Mode: 0o444, UID: -1, GID: -1}); err != nil {
			return setupFault(fmt.Errorf("write %s of the task: %w", target, err))
		}
		resp.Files = append(resp.Files, drivers.HostFile{Name: path.Join(req.Dir.Name(), allocdir.PrivateName, name), Target: target})
	}
	slices.SortFunc(resp.Files, func(a, b drivers.HostFile) int { return strings.Compare(a.Target, b.Target) })
	return nil
}

// resolved returns the block with its references interpolated.
func resolved(d *nomad.DNSConfig, env *taskenv.Env) *nomad.DNSConfig {
	each := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = env.Expand(s)
		}
		return out
	}
	return &nomad.DNSConfig{Servers: each(d.Servers), Searches: each(d.Searches), Options: each(d.Options)}
}

// complete returns an error if a reference could not be interpolated.
func complete(d *nomad.DNSConfig) error {
	for _, s := range slices.Concat(d.Servers, d.Searches, d.Options) {
		if strings.Contains(s, "${") {
			return fmt.Errorf("dns: %q contains a reference that is not defined on this node", s)
		}
	}
	return nil
}

// resolvConf returns the text of a resolv.conf. Settings missing from the block are those of
// the node.
func resolvConf(d *nomad.DNSConfig, node *nomad.DNSConfig) string {
	pick := func(first, other []string) []string {
		if len(first) > 0 {
			return first
		}
		return other
	}
	var b strings.Builder
	for _, s := range pick(d.Servers, node.Servers) {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if s := pick(d.Searches, node.Searches); len(s) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(s, " "))
	}
	if s := pick(d.Options, node.Options); len(s) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(s, " "))
	}
	return b.String()
}

// dnsOf returns the dns block of the group, or what its network's plugins returned.
func dnsOf(group *nomad.TaskGroup, status *nomad.AllocNetworkStatus) *nomad.DNSConfig {
	for _, n := range group.Networks {
		if n.DNS != nil {
			return n.DNS
		}
	}
	if status == nil || group.NetworkMode() == nomad.NetworkModeNone {
		return nil
	}
	return status.DNS
}

// nodeName returns the node's host name, which a task without one of its own has, or "".
func nodeName() string {
	name, err := os.Hostname()
	if err != nil || name == "localhost" {
		return ""
	}
	return name
}

// hosts returns a hosts file with the loopback names and the task's host name at its addresses.
// Programs resolve the name to find their own address.
func hosts(name string, addrs ...string) string {
	lines := []string{"127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"}
	for i, a := range addrs {
		if name == "" || a == "" || slices.Contains(addrs[:i], a) {
			continue
		}
		switch a {
		case "127.0.0.1":
			lines[0] += " " + name
		case "::1":
			lines[1] += " " + name
		default:
			lines = append(lines, a+" "+name)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func groupOf(a *nomad.Allocation) *nomad.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.TaskGroup(a.TaskGroup)
}
