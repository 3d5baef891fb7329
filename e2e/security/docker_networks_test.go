package security_test

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// TestDockerNetworksUnderAttack runs jobs that have no right but to submit jobs, on a node with networks of an operator.
// They try to get the network of the node, the names and addresses of others, and networks that are not for tasks.
func TestDockerNetworksUnderAttack(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n allow_networks = [\"shared\"]\n }\n}\nserver {\n privileged = \"explicit\"\n}\n",
		daemon.Endpoint(), testdocker.Pause))
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	nodes := newNetworks(t, daemon)
	quick := "restart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n"
	task := func(config string) string {
		return quick + fmt.Sprintf("task \"t\" {\n driver = \"docker\"\n kill_timeout = \"2s\"\n config {\n image = %q\n command = \"sh\"\n args = [\"-c\", %q]\n %s\n }\n resources {\n cpu = 50\n memory = 64\n }\n}\n",
			testdocker.Image, "cat /sys/class/net/eth0/address; wget -T 2 -qO- "+a.Address()+"/v1/status/leader 2>/dev/null || echo unreachable; while :; do sleep 1; done", config)
	}
	rows := map[string]struct{ config, want string }{
		"the node's network, by its ID": {fmt.Sprintf("network_mode = %q", nodes.host), "the daemon has no network with the name"},
		"part of that ID":               {fmt.Sprintf("network_mode = %q", nodes.host[:16]), "the daemon has no network with the name"},
		"not listed":                    {`network_mode = "internal"`, "is not in allow_networks"},
		"not listed, by its ID":         {fmt.Sprintf("network_mode = %q", nodes.internal), "the daemon has no network with the name"},
		"name by a reference":           {"network_mode = \"${NOMAD_META_net}\"\nnetwork_aliases = [\"a\"]", "not served: network_mode"},
		"host by a reference":           {"network_mode = \"${NOMAD_META_host}\"\nnetwork_aliases = [\"a\"]", "network_aliases needs a network_mode"},
		"alias of another's container":  {"network_mode = \"shared\"\nnetwork_aliases = [\"db\"]", "outside of namespace default"},
		"its name":                      {"network_mode = \"shared\"\nnetwork_aliases = [\"Postgres\"]", "outside of namespace default"},
		"hostname":                      {"network_mode = \"shared\"\nhostname = \"db\"", "outside of namespace default"},
		"its address":                   {fmt.Sprintf("network_mode = \"shared\"\nipv4_address = %q", nodes.victim), "Address already in use"},
		"its MAC address":               {fmt.Sprintf("network_mode = \"shared\"\nmac_address = %q", nodes.mac), "that of another container"},
		"MAC address of an interface":   {fmt.Sprintf("network_mode = \"shared\"\nmac_address = %q", nodes.bridge), "of the node"},
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			id := "hostile-" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
			harness.Run(t, a, harness.Job(id, "type = \"batch\"\nmeta {\n net = \"container:x\"\n host = \"host\"\n}", task(c.config)))
			failed := harness.Await(t, a, id, "failed", 1)[0]
			text := ""
			for _, e := range failed.TaskStates["t"].Events {
				if e.Type == api.TaskDriverFailure || e.Type == api.TaskFailedValidation {
					text += e.DisplayMessage + "\n"
				}
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("events = %s, want %q", text, c.want)
			}
		})
	}
	harness.Run(t, a, harness.Job("guest", "", task("network_mode = \"shared\"\nnetwork_aliases = [\"guest\"]\nmac_address = \"02:68:b3:29:da:99\"")))
	al := harness.Await(t, a, "guest", "running", 1)[0]
	harness.Within(t, harness.Patience, "its MAC address, and that it does not reach the agent", func() bool {
		return harness.Log(a, al) == "02:68:b3:29:da:99\nunreachable\n"
	})
}

// networks are what an operator has on a node, and a container of the operator in the network "shared".
type networks struct{ host, internal, victim, mac, bridge string }

func newNetworks(t *testing.T, daemon *testdocker.Daemon) (out networks) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	create := func(name, subnet string) string {
		made, err := daemon.API.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge",
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix(subnet)}}}})
		must(err)
		return made.ID
	}
	shared := create("shared", "198.19.51.0/24")
	out.internal = create("internal", "198.19.203.0/24")
	host, err := daemon.API.NetworkInspect(ctx, "host", client.NetworkInspectOptions{})
	must(err)
	out.host = host.Network.ID
	made, err := daemon.API.ContainerCreate(ctx, client.ContainerCreateOptions{Name: "postgres",
		Config:     &container.Config{Image: testdocker.Image, Cmd: []string{"sleep", "100000"}},
		HostConfig: &container.HostConfig{NetworkMode: "shared"},
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
			"shared": {Aliases: []string{"db"}}}}})
	must(err)
	_, err = daemon.API.ContainerStart(ctx, made.ID, client.ContainerStartOptions{})
	must(err)
	found, err := daemon.API.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{})
	must(err)
	at := found.Container.NetworkSettings.Networks["shared"]
	out.victim, out.mac = at.IPAddress.String(), at.MacAddress.String()
	i, err := net.InterfaceByName("br-" + shared[:12])
	must(err)
	out.bridge = i.HardwareAddr.String()
	return out
}
