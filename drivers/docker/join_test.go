package docker_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// network creates a network of the daemon, and returns its ID, "" if the kernel does not have its driver. Its bridge is on
// the machine itself. So subnets are in 198.19.0.0/16, which no network uses (RFC 2544): one of the documentation ranges
// could be the machine's own, and it would lose its routes.
func (f *fixture) network(name, driver string, subnets ...string) string {
	f.t.Helper()
	yes := true
	opts := client.NetworkCreateOptions{Driver: driver, IPAM: &network.IPAM{}, EnableIPv6: &yes}
	if len(subnets) < 2 {
		opts.EnableIPv6 = nil
	}
	for _, s := range subnets {
		opts.IPAM.Config = append(opts.IPAM.Config, network.IPAMConfig{Subnet: netip.MustParsePrefix(s)})
	}
	made, err := f.daemon.API.NetworkCreate(f.t.Context(), name, opts)
	if err != nil && driver != "bridge" && strings.Contains(err.Error(), "not supported") {
		return ""
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return made.ID
}

// id returns the container of a task.
func (f *fixture) id(d *docker.Driver, task string) string {
	f.t.Helper()
	status, err := d.InspectTask(task)
	if err != nil {
		f.t.Fatal(err)
	}
	return status.Attributes["container_id"]
}

// A task joins a network of the daemon by its name, with names and addresses of its choice. A later agent finds the same.
func TestNamedNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.network("shop-net", "bridge", "198.19.51.0/24", "2001:db8:7::/64")
	mine := block{"network_mode": "shop-net", "network_aliases": []any{"db", "db_1"}, "ipv4_address": "198.19.51.77",
		"ipv6_address": "2001:db8:7::77", "mac_address": "02:68:b3:29:da:98", "advertise_ipv6_address": true}
	cfg := f.task(shell("cat /sys/class/net/eth0/address; ip addr show eth0; echo ready; sleep 1000", mine))
	h := f.start(cfg)
	want := drivers.TaskNetwork{IP: "2001:db8:7::77", AutoAdvertise: true}
	if h.Network == nil || h.Network.IP != want.IP || !h.Network.AutoAdvertise {
		t.Errorf("network = %+v, want %+v", h.Network, want)
	}
	c := f.inspect(f.id(f.Driver, cfg.ID))
	at := c.NetworkSettings.Networks["shop-net"]
	if at == nil || len(c.NetworkSettings.Networks) != 1 || at.IPAddress.String() != "198.19.51.77" ||
		at.MacAddress.String() != "02:68:b3:29:da:98" || !strings.Contains(strings.Join(at.Aliases, " "), "db db_1") {
		t.Errorf("endpoint = %+v", at)
	}
	exec, out, errs := f.run("nslookup db 127.0.0.11 || nslookup db", block{"network_mode": "shop-net"})
	if exec.ExitCode != 0 || !strings.Contains(out, "198.19.51.77") {
		t.Errorf("lookup of the alias = %+v, %q, %q", exec, out, errs)
	}
	f.Abandon()
	later := f.open(docker.Name, f.config)
	defer later.Abandon()
	if err := later.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	status, err := later.InspectTask(cfg.ID)
	if err != nil || status.Network == nil || status.Network.IP != want.IP || !status.Network.AutoAdvertise {
		t.Errorf("InspectTask() of a later agent = %+v, %v, want %+v", status.Network, err, want)
	}
	if err := later.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

// Without advertise_ipv6_address, services of the task have its IPv4 address.
func TestNamedNetworkIPv4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.network("both", "bridge", "198.19.51.0/24", "2001:db8:8::/64")
	h := f.start(f.task(shell("sleep 1000", block{"network_mode": "both", "ipv4_address": "198.19.51.9"})))
	if h.Network == nil || h.Network.IP != "198.19.51.9" || !h.Network.AutoAdvertise {
		t.Errorf("network = %+v, want 198.19.51.9, advertised", h.Network)
	}
}

// A task joins only a network that exists, by its name, and that the plugin block allows.
func TestNetworksAllowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	shop := f.network("shop-net", "bridge", "198.19.51.0/24")
	lan := f.network("lan", "macvlan", "198.19.203.0/24") != ""
	host, err := f.daemon.API.NetworkInspect(t.Context(), "host", client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allowing := func(globs ...any) *docker.Driver {
		config := block{"allow_networks": append([]any{}, globs...)}
		for name, value := range f.config {
			config[name] = value
		}
		return f.open(docker.Name, config)
	}
	for name, c := range map[string]struct {
		driver *docker.Driver
		mode   string
		want   string // part of the error, "" for none
	}{
		"missing":               {f.Driver, "other", `the daemon has no network with the name "other"`},
		"ID":                    {f.Driver, shop, "the daemon has no network with the name"},
		"part of the ID":        {f.Driver, shop[:12], "the daemon has no network with the name"},
		"ID of the node's":      {f.Driver, host.Network.ID, "the daemon has no network with the name"},
		"part of the node's":    {f.Driver, host.Network.ID[:20], "the daemon has no network with the name"},
		"of a bridge":           {f.Driver, "shop-net", ""},
		"of the node's network": {f.Driver, "lan", "must name it in allow_networks"},
		"listed":                {allowing("shop-*"), "shop-net", ""},
		"not listed":            {allowing("team-*"), "shop-net", "is not in allow_networks"},
		"none listed":           {allowing(), "shop-net", "is not in allow_networks"},
		"all, missing":          {allowing("*"), "other", "the daemon has no network"},
		"all, the node's":       {allowing("*"), host.Network.ID, "the daemon has no network"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.mode == "lan" && !lan {
				t.Skip("needs a kernel with macvlan; config.TestAllowNetwork has the rule")
			}
			cfg := f.task(shell("sleep 1000", block{"network_mode": c.mode}))
			_, err := c.driver.StartTask(t.Context(), cfg)
			if err == nil {
				defer c.driver.DestroyTask(cfg.ID, true)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
		})
	}
}

// A job cannot take the name of a container outside of its namespace, and no MAC address of others.
func TestNetworkAttacks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.network("shared", "bridge", "198.19.51.0/24")
	shared := func(more block) block { return shell("sleep 1000", block{"network_mode": "shared"}, more) }
	victim := f.task(shared(block{"network_aliases": []any{"db"}, "hostname": "primary", "mac_address": "02:68:b3:29:da:98",
		"ipv4_address": "198.19.51.7"}))
	f.start(victim)
	id := f.id(f.Driver, victim.ID)
	foreign, err := f.daemon.API.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: "postgres",
		Config:     &container.Config{Image: testdocker.Image, Cmd: []string{"sleep", "1000"}},
		HostConfig: &container.HostConfig{NetworkMode: "shared"},
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
			"shared": {Aliases: []string{"store"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	bridge := f.bridgeMAC("shared")
	for name, c := range map[string]struct {
		namespace string
		more      block
		want      string
	}{
		"alias of another namespace":    {"team", block{"network_aliases": []any{"web", "DB"}}, "outside of namespace team"},
		"hostname as the alias":         {"team", block{"hostname": "db"}, "outside of namespace team"},
		"alias as the hostname":         {"team", block{"network_aliases": []any{"primary"}}, "outside of namespace team"},
		"name of a container":           {"team", block{"network_aliases": []any{id[:12]}}, "outside of namespace team"},
		"operator's, by name":           {"default", block{"network_aliases": []any{"postgres"}}, "outside of namespace default"},
		"operator's, by alias":          {"default", block{"network_aliases": []any{"store"}}, "outside of namespace default"},
		"MAC address of a container":    {"default", block{"mac_address": "02-68-B3-29-DA-98"}, "that of another container"},
		"MAC address of the bridge":     {"default", block{"mac_address": bridge}, "of the node"},
		"IP address of a container":     {"default", block{"ipv4_address": "198.19.51.7"}, "in use"},
		"IP address of the node":        {"default", block{"ipv4_address": "198.19.51.1"}, "in use"},
		"IP address of another network": {"default", block{"ipv4_address": "192.0.2.1"}, "does not belong to any of this network's subnets"},
		"same namespace":                {"default", block{"network_aliases": []any{"db"}}, ""},
		"another name":                  {"team", block{"network_aliases": []any{"db2"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shared(c.more))
			cfg.Namespace = c.namespace
			_, err := f.StartTask(t.Context(), cfg)
			if err == nil {
				defer f.DestroyTask(cfg.ID, true)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
		})
	}
	if _, err := f.daemon.API.ContainerRemove(t.Context(), foreign.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

// bridgeMAC returns the MAC address of the bridge of a network.
func (f *fixture) bridgeMAC(name string) string {
	f.t.Helper()
	found, err := f.daemon.API.NetworkInspect(f.t.Context(), name, client.NetworkInspectOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	i, err := interfaceOf("br-" + found.Network.ID[:12])
	if err != nil {
		f.t.Fatal(err)
	}
	return i
}

// A MAC address also applies on the default network of the daemon.
func TestMACOfDefaultNetwork(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, testdocker.StartBridged(t), nil)
	for _, mode := range []block{nil, {"network_mode": "bridge"}, {"network_mode": "default"}} {
		exit, out, errs := f.run("cat /sys/class/net/eth0/address", mode, block{"mac_address": "02:68:b3:29:da:99"})
		if exit.ExitCode != 0 || out != "02:68:b3:29:da:99\n" {
			t.Errorf("%v: MAC address = %q, %q, %+v", mode, out, errs, exit)
		}
	}
}

// interfaceOf returns the MAC address of an interface of the node.
func interfaceOf(name string) (string, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", err
	}
	return i.HardwareAddr.String(), nil
}

// Tasks that start at a time do not both get a name or a MAC address.
func TestNetworkRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.network("shared", "bridge", "198.19.51.0/24")
	for name, more := range map[string]block{"alias": {"network_aliases": []any{"db"}}, "MAC address": {"mac_address": "02:68:b3:29:da:98"}} {
		t.Run(name, func(t *testing.T) {
			const starts = 4
			errs := make(chan error, starts)
			begin := make(chan struct{})
			for i := range starts {
				cfg := f.task(shell("sleep 1000", block{"network_mode": "shared"}, more))
				cfg.Namespace = fmt.Sprint("team-", i)
				t.Cleanup(func() { f.Driver.DestroyTask(cfg.ID, true) })
				go func() {
					<-begin
					_, err := f.StartTask(t.Context(), cfg)
					errs <- err
				}()
			}
			close(begin)
			running := 0
			for range starts {
				err := <-errs
				if err == nil {
					running++
				} else if !strings.Contains(err.Error(), "outside of namespace") && !strings.Contains(err.Error(), "another container") {
					t.Errorf("StartTask() = %v", err)
				}
			}
			if running > 1 {
				t.Errorf("%d tasks run with one %s, want at most 1", running, name)
			}
		})
	}
}
