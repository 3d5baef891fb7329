package docker

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Files of the node that the client replaces for a task.
const (
	hostsFile  = "/etc/hosts"
	resolvFile = "/etc/resolv.conf"
)

// ofGroup reports whether a task has the network namespace of its group.
func ofGroup(cfg *drivers.TaskConfig, o *config.Task) bool {
	return cfg.NetNS != "" && o.NetworkMode == ""
}

// replaces reports whether the client has a file for a task in place of one of the node.
func replaces(cfg *drivers.TaskConfig, target string) bool {
	return slices.ContainsFunc(cfg.Files, func(f drivers.HostFile) bool { return f.Target == target })
}

// checkGroupNetwork returns an error if a task has an option that a container in the network of another cannot have. The
// resolver of the group takes precedence over that of the task, and extra_hosts is added to the hosts file of the group.
func checkGroupNetwork(cfg *drivers.TaskConfig, o *config.Task) error {
	resolver := len(o.DNSServers)+len(o.DNSSearches)+len(o.DNSOptions) > 0 && !replaces(cfg, resolvFile)
	hosts := len(o.ExtraHosts) > 0 && !replaces(cfg, hostsFile)
	if o.Hostname != "" || o.Endpoint.MAC != nil || resolver || hosts {
		return errors.New("hostname, mac_address, dns_servers, dns_search_domains, dns_options and extra_hosts " +
			"need a network of the task's own: the group has a network, so use its hostname and dns block, or set network_mode")
	}
	_, err := hostsLines(o.ExtraHosts)
	return err
}

// hostsLines returns the lines of a hosts file for extra_hosts.
func hostsLines(extra []string) (string, error) {
	var lines strings.Builder
	for _, entry := range extra {
		name, text, ok := strings.Cut(entry, ":")
		if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '#' || r == 0x7f }) {
			return "", fmt.Errorf("extra_hosts: invalid hosts entry %q", entry)
		}
		addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil || addr.Zone() != "" {
			return "", fmt.Errorf("extra_hosts: invalid IP address %q", text)
		}
		fmt.Fprintf(&lines, "%s %s\n", addr, name)
	}
	return lines.String(), nil
}

// maxHosts limits the hosts file of the client.
const maxHosts = 1 << 20

// extended writes a hosts file of the client with additional lines beside it, and returns its name. Only the agent can
// write to its directory.
func extended(cfg *drivers.TaskConfig, name string, extra []string) (string, error) {
	lines, err := hostsLines(extra)
	if err != nil || lines == "" {
		return name, err
	}
	alloc, err := safefs.Open(cfg.AllocDir)
	if err != nil {
		return "", err
	}
	defer alloc.Close() //nolint:errcheck // a directory
	dir, err := alloc.Sub(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // a directory
	text, err := dir.ReadFile(filepath.Base(name), maxHosts)
	if err != nil {
		return "", err
	}
	own := filepath.Base(name) + "-extra"
	if err := dir.Replace(own, append(text, lines...), safefs.File{Mode: 0o444, UID: -1, GID: -1}); err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(name), own), nil
}
