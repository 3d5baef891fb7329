package taskhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Files of the node that a dns block replaces for the task, and the size limit for reading one.
const (
	resolvFile = "/etc/resolv.conf"
	hostsFile  = "/etc/hosts"
	maxResolv  = 64 << 10
)

// dnsHook writes the resolv.conf of the group's dns block and, in network mode none, a hosts
// file. The files are in the task's private directory, which only root can write. The driver
// mounts them over the node's files. Without a dns block the task sees the node's files.
// A driver that applies the block itself gets it as it is.
type dnsHook struct{ mounts, itself bool }

func newDNSHook(c Config) hook.Hook {
	return &dnsHook{mounts: c.Capabilities.Mounts, itself: c.Capabilities.DNS}
}

func (*dnsHook) Name() string { return "dns" }

func (h *dnsHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	group := groupOf(req.Alloc)
	if group == nil || req.Running {
		return nil
	}
	i := slices.IndexFunc(group.Networks, func(n *nomad.NetworkResource) bool { return n.DNS != nil })
	if i < 0 {
		return nil
	}
	if !h.mounts && !h.itself {
		return &Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf(
			"driver %q can't mount a resolv.conf for a task: remove the dns block of the group's network, or use another driver", req.Task.Driver)}
	}
	dns := resolved(group.Networks[i].DNS, req.Env)
	if err := errors.Join(jobrules.CheckDNS(dns), complete(dns)); err != nil {
		return &Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	if h.itself {
		resp.DNS = &drivers.DNS{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
		return nil
	}
	files := map[string]string{resolvFile: resolvConf(dns, readResolv())}
	if group.NetworkMode() == nomad.NetworkModeNone {
		files[hostsFile] = hosts()
	}
	private, err := req.Dir.Private()
	if err != nil {
		return &Fault{Type: nomad.TaskSetupFailure, Err: &drivers.RecoverableError{Err: err}}
	}
	defer private.Close()
	for target, text := range files {
		name := path.Base(target)
		if err := private.Replace(name, []byte(text), safefs.File{Mode: 0o444, UID: -1, GID: -1}); err != nil {
			return &Fault{Type: nomad.TaskSetupFailure, Err: &drivers.RecoverableError{Err: fmt.Errorf("write %s of the task: %w", target, err)}}
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
	pick := func(own, other []string) []string {
		if len(own) > 0 {
			return own
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

// readResolv reads the node's resolv.conf. It is empty if that cannot be read.
func readResolv() *nomad.DNSConfig {
	f, err := os.Open(resolvFile)
	if err != nil {
		return &nomad.DNSConfig{}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxResolv))
	if err != nil {
		return &nomad.DNSConfig{}
	}
	return parseResolv(string(text))
}

func parseResolv(text string) *nomad.DNSConfig {
	d := &nomad.DNSConfig{}
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) < 2:
		case words[0] == "nameserver":
			d.Servers = append(d.Servers, words[1])
		case words[0] == "search" || words[0] == "domain": // the last one applies
			d.Searches = words[1:]
		case words[0] == "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return d
}

// hosts returns a hosts file with the loopback names and the node's host name, which programs
// resolve to find their own address.
func hosts() string {
	name, err := os.Hostname()
	if err != nil || name == "localhost" {
		name = ""
	}
	return strings.TrimSpace("127.0.0.1 localhost "+name) + "\n" +
		strings.TrimSpace("::1 localhost ip6-localhost ip6-loopback "+name) + "\n"
}

func groupOf(a *nomad.Allocation) *nomad.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.TaskGroup(a.TaskGroup)
}
