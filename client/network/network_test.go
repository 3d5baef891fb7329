package network_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// agentVar makes the test process an agent that connects one allocation and is killed by a plugin.
const agentVar = "OPEN_NOMAD_TEST_NETWORK_AGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentVar); dir != "" {
		doomedAgent(dir)
		os.Exit(3)
	}
	os.Exit(testnet.Private(m))
}

// node is the network of a client.
type node struct {
	t       testing.TB
	dir     string
	cfg     network.Config
	spaces  *netns.Set
	set     *network.Set
	plugins string
}

const allocID = "0b5c3ad4-6f0a-4d8a-9d6e-2a0d7c9f1e01"

func config(dir, plugins string) network.Config {
	return network.Config{Dir: filepath.Join(dir, "network"), Plugins: []string{plugins}, ConfigDir: filepath.Join(dir, "cni"),
		Bridge: network.Bridge{Name: "nomad", Subnet: netip.MustParsePrefix("172.26.64.0/20"), Subnet6: netip.MustParsePrefix("fd00:77::/64")},
		Log:    slog.New(slog.DiscardHandler), AllAddresses: true}
}

func newNode(t testing.TB) *node {
	t.Helper()
	plugins := testnet.NeedBridge(t, cni.PluginDirs("", os.Getenv("CNI_PATH")))
	n := &node{t: t, dir: t.TempDir(), plugins: plugins}
	n.cfg = config(n.dir, n.plugins)
	n.spaces = netns.New(filepath.Join(n.dir, "netns"))
	n.set = network.New(n.cfg)
	t.Cleanup(func() {
		none := func(string) bool { return false }
		if err := errors.Join(n.sweep(context.Background()), n.spaces.Sweep(none)); err != nil {
			t.Error(err)
		}
		_ = exec.Command("ip", "link", "del", "nomad").Run() // may not exist
	})
	return n
}

// restart replaces the agent by one with the current configuration.
func (n *node) restart() {
	n.t.Helper()
	n.set = network.New(n.cfg)
}

// sweep removes all networks.
func (n *node) sweep(ctx context.Context) error {
	ids, err := n.set.Allocations()
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, n.set.Disconnect(ctx, id))
	}
	return errors.Join(errs...)
}

func request(id, path string) network.Request {
	return network.Request{Region: "global", Path: path, Network: &nomad.NetworkResource{Mode: "bridge"},
		Alloc: &nomad.Allocation{ID: id, Namespace: "default", JobID: "web", TaskGroup: "web", AllocatedResources: &nomad.AllocatedResources{
			Shared: nomad.AllocatedSharedResources{Ports: nomad.AllocatedPorts{{Label: "http", Value: 20080, To: 80, HostIP: "127.0.0.1"}}}}}}
}

func (n *node) space(id string) string {
	n.t.Helper()
	path, err := n.spaces.Make(id)
	if err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) connect(r network.Request) *nomad.AllocNetworkStatus {
	n.t.Helper()
	status, err := n.set.Connect(n.t.Context(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	return status
}

// remains returns what exists of the allocation.
func (n *node) remains(id, address string) []string {
	n.t.Helper()
	var out []string
	for _, name := range []string{"iptables-save", "ip6tables-save"} {
		text, err := exec.Command(name).Output()
		if err != nil {
			n.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, id) || strings.Contains(line, address+"/") || strings.HasPrefix(line, ":CNI-DN-") ||
				strings.HasPrefix(line, ":CNI-0") ||
				strings.HasPrefix(line, "-A CNI-FORWARD -d") || strings.HasPrefix(line, "-A CNI-FORWARD -s") ||
				strings.Contains(line, " POSTROUTING -s") {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	rules, err := exec.Command("nft", "list", "ruleset").Output()
	if err != nil || strings.Contains(string(rules), id) {
		out = append(out, "nft rules", fmt.Sprint(err))
	}
	files, _ := os.ReadDir("/run/cni/nomad") // may not exist
	var leases []string
	for _, f := range files {
		if _, err := netip.ParseAddr(f.Name()); err == nil {
			leases = append(leases, f.Name())
		}
	}
	links, err := exec.Command("ip", "-o", "link").Output()
	if err != nil || strings.Contains(string(links), "veth") {
		out = append(out, string(links))
	}
	records, _ := filepath.Glob(filepath.Join(n.dir, "network", "*.json"))
	cached, _ := filepath.Glob(filepath.Join(n.dir, "network", "results", "*"))
	spaces, _ := filepath.Glob(filepath.Join(n.dir, "netns", "*"))
	for _, list := range [][]string{leases, records, cached, spaces} {
		out = append(out, list...)
	}
	return out
}

func (n *node) wantClean(id, address string) {
	n.t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			n.t.Logf("remaining: %s", strings.Join(left, "\n"))
		}
	}()
	// The kernel removes interfaces some time after their namespace.
	testpace.Within(n.t, 10*time.Second, "nothing remains", func() bool {
		left = n.remains(id, address)
		return len(left) == 0
	})
}

func TestBridge(t *testing.T) {
	n := newNode(t)
	path := n.space(allocID)
	r := request(allocID, path)
	r.Network.DNS = &nomad.DNSConfig{Servers: []string{"192.0.2.53"}}
	status := n.connect(r)
	if status.InterfaceName != "eth0" || !n.cfg.Bridge.Subnet.Contains(netip.MustParseAddr(status.Address)) ||
		!n.cfg.Bridge.Subnet6.Contains(netip.MustParseAddr(status.AddressIPv6)) || status.DNS == nil {
		t.Errorf("status = %+v", status)
	}
	addrs, err := netns.Addresses(path, "eth0")
	if err != nil || !strings.Contains(fmt.Sprint(addrs), status.Address) {
		t.Errorf("addresses = %v, %v, want %s", addrs, err, status.Address)
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil || !strings.Contains(string(rules), "-A NOMAD-ADMIN -d 172.26.64.0/20 -o nomad -j ACCEPT") ||
		!strings.Contains(string(rules), "--dport 20080 -j DNAT --to-destination "+status.Address+":80") {
		t.Errorf("rules = %s, %v", rules, err)
	}
	if len(n.remains(allocID, status.Address)) < 5 {
		t.Error("the check for remains finds too little")
	}
	// The next agent keeps the network.
	n.restart()
	if again := n.connect(r); again.Address != status.Address {
		t.Errorf("status of the next agent = %+v, want %s", again, status.Address)
	}
	if err := n.set.Disconnect(t.Context(), allocID); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.set.Disconnect(t.Context(), allocID), n.spaces.Remove(allocID)); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID, status.Address)
}

// After a reboot of the node there is no namespace, but the record and the address.
func TestAfterBoot(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	r := request(allocID, n.space(allocID))
	first := n.connect(r)
	if err := n.spaces.Remove(allocID); err != nil {
		t.Fatal(err)
	}
	n.space(allocID)
	second := n.connect(r)
	if addrs, err := netns.Addresses(r.Path, "eth0"); err != nil || !strings.Contains(fmt.Sprint(addrs), second.Address) {
		t.Errorf("addresses = %v, %v, want %s", addrs, err, second.Address)
	}
	if err := errors.Join(n.spaces.Remove(allocID), n.set.Disconnect(t.Context(), allocID)); err != nil {
		t.Fatal(err) // the namespace is gone before the network
	}
	n.wantClean(allocID, first.Address)
	n.wantClean(allocID, second.Address)
}

// Plugins that fail to remove a network leave nothing.
func TestPluginsGone(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	r := request(allocID, n.space(allocID))
	r.Network.Isolate = true
	status := n.connect(r)
	n.cfg.Plugins = []string{t.TempDir()}
	n.restart()
	if _, err := n.set.Connect(t.Context(), request("other", n.space("other"))); err == nil ||
		!strings.Contains(err.Error(), "containernetworking-plugins") {
		t.Errorf("Connect() without plugins = %v", err)
	}
	if err := errors.Join(n.sweep(t.Context()), n.spaces.Remove(allocID), n.spaces.Remove("other")); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID, status.Address)
}

// doomedAgent connects the allocation; a plugin kills the process.
func doomedAgent(dir string) {
	set := network.New(config(dir, filepath.Join(dir, "plugins")))
	_, err := set.Connect(context.Background(), request(allocID, filepath.Join(dir, "netns", allocID)))
	fmt.Println("not killed:", err)
}

// wrap puts scripts around the plugins. The script of the named one kills the agent.
func (n *node) wrap(plugin, when string) {
	n.t.Helper()
	dir := filepath.Join(n.dir, "plugins")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		n.t.Fatal(err)
	}
	for _, name := range []string{"loopback", "bridge", "firewall", "portmap", "host-local"} {
		kill := map[string]string{}
		if name == plugin {
			kill[when] = `[ "$CNI_COMMAND" = ADD ] && kill -9 $PPID`
		}
		script := fmt.Sprintf("#!/bin/sh\n%s\n%s/%s\ncode=$?\n%s\nexit $code\n", kill["before"], n.plugins, name, kill["after"])
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			n.t.Fatal(err)
		}
	}
}

// An agent is killed at each step. The next one removes everything, or connects the allocation.
func TestKilledAgent(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	for _, plugin := range []string{"loopback", "bridge", "firewall", "portmap"} {
		for _, when := range []string{"before", "after"} {
			for _, next := range []string{"removes", "connects"} {
				t.Run(plugin+" "+when+" "+next, func(t *testing.T) {
					n := newNode(t)
					r := request(allocID, n.space(allocID))
					n.wrap(plugin, when)
					cmd := exec.Command("/proc/self/exe")
					cmd.Env = append(os.Environ(), agentVar+"="+n.dir)
					if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
						t.Fatalf("the agent: %v, %s", err, out)
					}
					if next == "connects" {
						n.connect(r)
					}
					if err := errors.Join(n.sweep(t.Context()), n.spaces.Remove(allocID)); err != nil {
						t.Fatal(err)
					}
					n.wantClean(allocID, "172.26.64.2")
				})
			}
		}
	}
}

func TestCNINetwork(t *testing.T) {
	n := newNode(t)
	write := func(name string, conf any) {
		raw, err := json.Marshal(conf)
		if text, ok := conf.(string); ok {
			raw = []byte(text)
		}
		if err := errors.Join(err, os.MkdirAll(n.cfg.ConfigDir, 0o700),
			os.WriteFile(filepath.Join(n.cfg.ConfigDir, name), raw, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	type object = map[string]any
	write("10-own.conflist", object{"cniVersion": "1.0.0", "name": "own", "plugins": []object{
		{"type": "bridge", "bridge": "own0",
			"ipam": object{"type": "host-local", "dataDir": "/run/cni", "ranges": [][]object{{{"subnet": "10.55.0.0/24"}}}}}}})
	write("20-broken.conf", `{"name": "broken", `)
	write("30-hangs.conf", object{"cniVersion": "0.4.0", "name": "rubbish", "type": "rubbish"})
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "own0").Run() })
	r := request(allocID, n.space(allocID))
	r.Network = &nomad.NetworkResource{Mode: "cni/own",
		CNI: &nomad.CNIConfig{Args: map[string]string{"color": "red", "NOMAD_JOB_ID": "forged"}}}
	status := n.connect(r)
	if !strings.HasPrefix(status.Address, "10.55.0.") || status.AddressIPv6 != "" {
		t.Errorf("status = %+v", status)
	}
	if err := n.set.Disconnect(t.Context(), allocID); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{"cni/none": "no CNI configuration has this name", "cni/broken": "20-broken.conf",
		"cni/rubbish": "rubbish"} {
		r.Network = &nomad.NetworkResource{Mode: mode}
		if _, err := n.set.Connect(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %s: %v, want %q", mode, err, want)
		}
	}
	if err := n.spaces.Remove(allocID); err != nil {
		t.Fatal(err)
	}
}
