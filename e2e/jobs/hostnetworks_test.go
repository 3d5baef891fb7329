package jobs_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A node with two host networks: a port gets an address of its network, whose reserved ports it does not get. A job
// for a network or a device that the node does not have waits, and one that needs cores of one NUMA node runs.
func TestHostNetworks(t *testing.T) {
	f := harness.NewFleet(t, "")
	f.Join("only", `client {
  network_interface = "lo"
  cpu_total_compute = 4000
  host_network "lan" {
    cidr           = "127.0.0.0/8"
    interface      = "lo"
    reserved_ports = "28200-28201"
  }
  host_network "far" {
    cidr = "203.0.113.0/24"
  }
}
`)
	defer f.Purge()
	port := func(text string) string { return "network {\n port \"web\" {\n" + text + "\n}\n}\n" }

	id, _ := harness.Run(t, f.Server, harness.Job("lan", "", port("static = 28210\nhost_network = \"lan\"")+harness.Shell(`env; sleep 3600`)))
	al := harness.Await(t, f.Server, id, "running", 1)[0]
	wantEnv(t, environment(t, f.Server, al), map[string]string{"NOMAD_ADDR_web": "127.0.0.1:28210", "NOMAD_IP_web": "127.0.0.1",
		"NOMAD_HOST_ADDR_web": "127.0.0.1:28210"})
	node, _, err := f.Server.Client.Nodes().Info(al.NodeID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := node.HostNetworks["lan"]; n == nil || n.CIDR != "127.0.0.0/8" || n.Interface != "lo" || n.ReservedPorts != "28200-28201" {
		t.Errorf("host networks = %+v", node.HostNetworks)
	}

	for name, c := range map[string]struct{ group, blocked string }{
		"reserved": {port("static = 28201\nhost_network = \"lan\"") + harness.SmallTask, "network: reserved port collision web=28201"},
		"taken":    {port("static = 28210\nhost_network = \"lan\"") + harness.SmallTask, "network: reserved port collision web=28210"},
		"far":      {port("host_network = \"far\"") + harness.SmallTask, `missing host network "far" for port "web"`},
		"unknown":  {port("host_network = \"wan\"") + harness.SmallTask, `missing host network "wan" for port "web"`},
		"invalid":  {port("host_network = \"$${meta.none}\"") + harness.SmallTask, `invalid host network "${meta.none}" template for port "web"`},
		"device":   {strings.Replace(harness.SmallTask, "memory = 10", "memory = 10\n device \"nvidia/gpu\" {}", 1), "missing devices"},
	} {
		t.Run(name, func(t *testing.T) {
			_, eval := harness.Run(t, f.Server, harness.Job(name, "", c.group))
			harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), c.blocked)
		})
	}
	id, _ = harness.Run(t, f.Server, harness.Job("numa", "", strings.Replace(harness.SmallTask, "cpu    = 10",
		"cores = 1\nnuma {\n affinity = \"require\"\n}", 1)))
	harness.Await(t, f.Server, id, "running", 1)
}
