package jobs_test

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Three different nodes, and the placement options of a job.
func TestPlacement(t *testing.T) {
	f := harness.NewFleet(t, "")
	for name, text := range map[string]string{
		"one":   `client { node_class = "big", meta { rack = "r1", gen = "2" } }`,
		"two":   `client { node_class = "small", meta { rack = "r2", gen = "3" } }`,
		"three": "datacenter = \"west-1\"\nclient { node_class = \"big\", node_pool = \"gpu\", meta { rack = \"r3\", gen = \"10\" } }",
	} {
		text = strings.NewReplacer("{ ", "{\n", ", ", "\n", " }", "\n}").Replace(text)
		f.Join(name, text)
	}
	defer f.Purge()
	const everywhere = "datacenters = [\"*\"]\n node_pool = \"all\"\n"
	for _, c := range []struct {
		name, head, group string
		status            string
		want              map[string]int // allocations by node; "" counts those on any node
		blocked           string         // reason of an evaluation with failed placements
	}{
		{"system", everywhere + `type = "system"`, harness.SmallTask, "running", map[string]int{"one": 1, "two": 1, "three": 1}, ""},
		{"system-pool", "datacenters = [\"*\"]\ntype = \"system\"", harness.SmallTask, "running", map[string]int{"one": 1, "two": 1}, ""},
		{"system-constraint", everywhere + "type = \"system\"\nconstraint {\n attribute = \"${node.class}\"\n value = \"big\"\n}",
			harness.SmallTask, "running", map[string]int{"one": 1, "three": 1}, ""},
		{"sysbatch", everywhere + `type = "sysbatch"`, strings.Replace(harness.SmallTask, "1h", "1ms", 1), "complete",
			map[string]int{"one": 1, "two": 1, "three": 1}, ""},
		{"distinct-hosts", everywhere + "constraint {\n distinct_hosts = true\n}", "count = 4\n" + harness.SmallTask, "running",
			map[string]int{"one": 1, "two": 1, "three": 1}, "distinct_hosts"},
		{"distinct-property", everywhere + "constraint {\n distinct_property = \"${node.class}\"\n}", "count = 3\n" + harness.SmallTask,
			"running", map[string]int{"": 2}, "distinct_property"},
		{"regexp", everywhere + "constraint {\n attribute = \"${meta.rack}\"\n operator = \"regexp\"\n value = \"r[23]\"\n}\nconstraint {\n distinct_hosts = true\n}", "count = 2\n" + harness.SmallTask, "running", map[string]int{"two": 1, "three": 1}, ""},
		{"version", everywhere + "constraint {\n attribute = \"${meta.gen}\"\n operator = \"version\"\n value = \">= 3\"\n}\nconstraint {\n distinct_hosts = true\n}", "count = 2\n" + harness.SmallTask, "running", map[string]int{"two": 1, "three": 1}, ""},
		{"set-contains", everywhere + "constraint {\n attribute = \"${meta.rack}\"\n operator = \"set_contains_any\"\n value = \"r3,r9\"\n}",
			"count = 2\n" + harness.SmallTask, "running", map[string]int{"three": 2}, ""},
		{"spread", "spread {\n attribute = \"${meta.rack}\"\n}", "count = 4\n" + harness.SmallTask, "running",
			map[string]int{"one": 2, "two": 2}, ""},
		{"spread-targets", "spread {\n attribute = \"${meta.rack}\"\n target \"r1\" {\n percent = 75\n}\n target \"r2\" {\n percent = 25\n}\n}", "count = 4\n" + harness.SmallTask, "running", map[string]int{"one": 3, "two": 1}, ""},
		{"affinity", "affinity {\n attribute = \"${meta.rack}\"\n value = \"r2\"\n weight = 100\n}", "count = 1\n" + harness.SmallTask,
			"running", map[string]int{"two": 1}, ""},
		{"anti-affinity", "affinity {\n attribute = \"${node.class}\"\n value = \"small\"\n weight = -100\n}",
			"count = 1\n" + harness.SmallTask, "running", map[string]int{"one": 1}, ""},
		{"datacenter-glob", "node_pool = \"all\"\ndatacenters = [\"we*\"]", "count = 2\n" + harness.SmallTask, "running",
			map[string]int{"three": 2}, ""},
		{"pool", "node_pool = \"gpu\"\ndatacenters = [\"*\"]", harness.SmallTask, "running", map[string]int{"three": 1}, ""},
		{"pool-elsewhere", "node_pool = \"gpu\"\ndatacenters = [\"dc1\"]", harness.SmallTask, "running", map[string]int{}, "no nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, eval := harness.Run(t, f.Server, harness.Job(c.name, c.head, c.group))
			n := 0
			for _, k := range c.want {
				n += k
			}
			got := harness.CountByNode(harness.Await(t, f.Server, id, c.status, n))
			if _, any := c.want[""]; !any && !maps.Equal(got, c.want) {
				t.Errorf("placed on %v, want %v", got, c.want)
			}
			harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), c.blocked)
		})
	}
}

// The ports and cores in the environment of a task are correct.
func TestPortsAndCores(t *testing.T) {
	f := harness.NewFleet(t, "")
	f.Join("only", "client {\n network_interface = \"lo\"\n cpu_total_compute = 4000\n}\n")
	defer f.Purge()

	id, _ := harness.Run(t, f.Server, harness.Job("ports", "", `
    network {
      port "web" {
        static = 28123
      }
      port "a-b" {}
    }
`+harness.Shell(`env; sleep 3600`)))
	al := harness.Await(t, f.Server, id, "running", 1)[0]
	env := environment(t, f.Server, al)
	info, _, err := f.Server.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	dynamic := 0
	for _, p := range info.AllocatedResources.Shared.Ports {
		if p.Label == "a-b" {
			dynamic = p.Value
		}
	}
	if dynamic < 20000 || dynamic > 32000 {
		t.Errorf("the dynamic port is %d, want one of 20000-32000", dynamic)
	}
	d := strconv.Itoa(dynamic)
	wantEnv(t, env, map[string]string{
		"NOMAD_PORT_web": "28123", "NOMAD_HOST_PORT_web": "28123", "NOMAD_ADDR_web": "127.0.0.1:28123", "NOMAD_IP_web": "127.0.0.1",
		"NOMAD_ALLOC_PORT_web": "28123", "NOMAD_HOST_IP_web": "127.0.0.1", "NOMAD_HOST_ADDR_web": "127.0.0.1:28123",
		"NOMAD_PORT_a_b": d, "NOMAD_HOST_PORT_a_b": d, "NOMAD_ADDR_a_b": "127.0.0.1:" + d, "NOMAD_CPU_CORES": " ",
	})

	id, _ = harness.Run(t, f.Server, harness.Job("cores", "",
		strings.Replace(harness.Shell(`grep Cpus_allowed_list /proc/self/status; env; sleep 3600`), "cpu    = 10", "cores = 1", 1)))
	al = harness.Await(t, f.Server, id, "running", 1)[0]
	env = environment(t, f.Server, al)
	core := env["NOMAD_CPU_CORES"]
	if !regexp.MustCompile(`^\d+$`).MatchString(core) {
		t.Errorf("NOMAD_CPU_CORES = %q, want one core", core)
	}
	node, _, err := f.Server.Client.Nodes().Info(al.NodeID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(harness.Log(f.Server, al), "\n"); line != "Cpus_allowed_list:\t"+core &&
		node.Attributes["os.cgroups.version"] != "" {
		t.Errorf("the task runs on %q, want core %s", line, core)
	}
	// Every core is in use: one more job that needs all of them waits.
	_, eval := harness.Run(t, f.Server, harness.Job("all-cores", "", strings.Replace(harness.SmallTask, "cpu    = 10",
		"cores = "+strconv.Itoa(cores(t, f.Server, al.NodeID)), 1)))
	harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), "cores")
}

func cores(t *testing.T, a *cluster.Agent, node string) int {
	t.Helper()
	n, _, err := a.Client.Nodes().Info(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	count, err := strconv.Atoi(n.Attributes["cpu.reservablecores"])
	if err != nil {
		t.Fatalf("cpu.reservablecores: %v", err)
	}
	return count
}

// environment returns the environment that the task wrote with env.
func environment(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) map[string]string {
	t.Helper()
	text := ""
	harness.Within(t, harness.Patience, "the environment of "+al.Name, func() bool {
		text = harness.Log(a, al)
		return strings.Contains(text, "NOMAD_ALLOC_ID=") && strings.HasSuffix(text, "\n")
	})
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			out[k] = v
		}
	}
	return out
}

func wantEnv(t *testing.T, env, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got, ok := env[k]; got != v || !ok {
			t.Errorf("%s = %q (set: %v), want %q", k, got, ok, v)
		}
	}
}
