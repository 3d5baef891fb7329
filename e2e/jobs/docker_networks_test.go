package jobs_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// TestDockerNetwork runs a job on a network of the daemon. Its service has the IPv6 address of the container, and another
// container finds it by its alias. A restart of the agent changes neither.
func TestDockerNetwork(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n }\n}\n", daemon.Endpoint(),
		testdocker.Pause))
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	defer func() { harness.PurgeAll(t, a) }()
	yes := true
	if _, err := daemon.API.NetworkCreate(t.Context(), "shop", client.NetworkCreateOptions{Driver: "bridge", EnableIPv6: &yes,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix("198.19.51.0/24")},
			{Subnet: netip.MustParsePrefix("2001:db8:9::/64")}}}}); err != nil {
		t.Fatal(err)
	}
	task := func(script, config, more string) string {
		return fmt.Sprintf("task \"t\" {\n driver = \"docker\"\n kill_timeout = \"1s\"\n config {\n image = %q\n command = \"sh\"\n args = [\"-c\", %q]\n network_mode = \"shop\"\n %s\n }\n %s\n resources {\n cpu = 50\n memory = 64\n }\n}\n",
			testdocker.Image, script, config, more)
	}
	harness.Run(t, a, harness.Job("db", "", "network {\n port \"db\" {\n to = 5432\n }\n}\n"+task("echo ready; while :; do sleep 1; done",
		"network_aliases = [\"db\"]\nmac_address = \"02:68:b3:29:da:98\"\nipv6_address = \"2001:db8:9::77\"\nadvertise_ipv6_address = true",
		"service {\n name = \"db\"\n provider = \"nomad\"\n port = \"db\"\n}")))
	before := harness.Await(t, a, "db", "running", 1)[0]
	registered := func(when string) {
		t.Helper()
		harness.Within(t, harness.Patience, "the address of the service "+when, func() bool {
			out, err := harness.Command(t, a, "service", "info", "db")
			return err == nil && strings.Contains(out, "[2001:db8:9::77]:5432")
		})
	}
	lookup := func(id string) {
		t.Helper()
		harness.Run(t, a, harness.Job(id, "type = \"batch\"", harness.Once+task("nslookup db 127.0.0.11 | grep 2001:db8:9::77", "", "")))
		harness.Await(t, a, id, "complete", 1)
	}
	registered("at the start")
	lookup("first")
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	after := harness.Await(t, a, "db", "running", 1)[0]
	if after.ID != before.ID || after.TaskStates["t"].Restarts != 0 {
		t.Errorf("after the restart of the agent: allocation %s with %d restarts, want %s without one", after.ID, after.TaskStates["t"].Restarts, before.ID)
	}
	registered("after the restart of the agent")
	lookup("second")
}
