package fingerprint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
)

// Networks configures the networks of allocations.
type Networks struct {
	PluginDirs []string // of CNI plugins
	ConfigDir  string   // of CNI configurations
	Bridge     string   // name of the bridge
	Hairpin    bool
	// Isolation returns an error if the node cannot isolate allocations on the bridge, netfilter.Probe.
	Isolation func() error
}

// bridgeModule is the kernel module that bridges need.
const bridgeModule = "bridge"

// bridge reports the bridge of the node, which an agent with root creates when it is first used.
func bridge(h *Host) (Facts, error) {
	var f Facts
	if !netns.Possible() || !h.hasModule(bridgeModule) || h.cfg.Networks.Bridge == "" {
		return f, nil
	}
	f.addNetwork(nomad.NetworkModeBridge, h.cfg.Networks.Bridge)
	hairpin := "false"
	if h.cfg.Networks.Hairpin {
		hairpin = "true"
	}
	f.set("nomad.bridge.hairpin_mode", hairpin)
	if err := h.cfg.Networks.Isolation(); err != nil {
		f.set(nomad.AttrBridgeIsolation, "false")
		return f, fmt.Errorf("allocations cannot be isolated on the bridge: install and load nftables: %w", err)
	}
	f.set(nomad.AttrBridgeIsolation, "true")
	return f, nil
}

// cniNetworks reports the networks of the CNI configurations. An attribute holds the errors of files
// that cannot be used.
func cniNetworks(h *Host) (Facts, error) {
	var f Facts
	if !netns.Possible() || h.cfg.Networks.ConfigDir == "" {
		return f, nil
	}
	networks, errs := cni.Networks(h.cfg.Networks.ConfigDir)
	for _, n := range networks {
		f.addNetwork(nomad.NetworkModeCNI+n.Name, "")
	}
	err := errors.Join(errs...)
	if err != nil {
		f.set("network.cni.error", err.Error())
	}
	return f, err
}

// cniPlugins reports the versions of the CNI plugins.
func cniPlugins(h *Host) (Facts, error) {
	var f Facts
	if !netns.Possible() {
		return f, nil
	}
	versions, err := cni.Versions(context.Background(), h.cfg.Networks.PluginDirs) // each has a time limit
	for name, v := range versions {
		f.set("plugins.cni.version."+name, v)
	}
	return f, err
}

// addNetwork adds a network mode.
func (f *Facts) addNetwork(mode, device string) {
	f.Networks = append(f.Networks, &nomad.NetworkResource{Mode: mode})
	f.NodeNetworks = append(f.NodeNetworks, &nomad.NodeNetworkResource{Mode: mode, Device: device})
}

// hasModule reports whether the kernel has a module: loaded, built in, or available.
func (h *Host) hasModule(name string) bool {
	if _, err := os.Stat(h.path("/sys/module/" + name)); err == nil {
		return true
	}
	lists := []string{"/proc/modules"}
	if release := kernelRelease(); release != "" {
		lists = append(lists, "/lib/modules/"+release+"/modules.builtin", "/lib/modules/"+release+"/modules.dep")
	}
	for _, list := range lists {
		if h.listsModule(list, name) {
			return true
		}
	}
	return false
}

// kernelRelease returns the release of the running kernel, "" if it is unknown.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// listsModule reports whether the first word of a line is the module: its name, or the path of its
// file, which may be compressed.
func (h *Host) listsModule(list, name string) bool {
	file, err := os.Open(h.path(list))
	if err != nil {
		return false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		word, _, _ := strings.Cut(lines.Text(), " ")
		base, _, _ := strings.Cut(path.Base(strings.TrimSuffix(word, ":")), ".ko")
		if base == name {
			return true
		}
	}
	return false
}
