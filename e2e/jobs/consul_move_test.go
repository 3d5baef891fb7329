package jobs_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// consulMove is a cluster of one agent that changes the provider of services.
type consulMove struct {
	*testing.T
	agent  *cluster.Agent
	consul *testconsul.Agent
	config string
	token  string
}

// setting writes the configuration with a line for the services block.
func (m *consulMove) setting(services string) {
	m.Helper()
	const identity = "{\n    aud = [\"consul.io\"]\n    ttl = \"1h\"\n  }\n"
	harness.WriteFile(m.T, m.config, harness.TestDrivers+fmt.Sprintf("server {\n  services {\n    %s\n  }\n}\nconsul {\n  address = %q\n  token = %q\n"+
		"  auto_advertise = false\n  service_identity %s  task_identity %s}\n", services, m.consul.Addr(), m.token, identity, identity))
}

// restart restarts the agent with another setting.
func (m *consulMove) restart(services string) {
	m.Helper()
	m.setting(services)
	if err := m.agent.Kill(); err != nil {
		m.Fatal(err)
	}
	m.agent = harness.Restart(m.T, m.agent)
	harness.Await(m.T, m.agent, "shop", "running", 2)
}

// registered waits until Consul and the native catalog have exactly these services.
func (m *consulMove) registered(when, consul, native string) {
	m.Helper()
	harness.Succeeds(m.T, when, func() error {
		var inConsul, inCatalog []string
		for _, s := range m.consul.Services() {
			inConsul = append(inConsul, s.Service)
		}
		list, _, err := m.agent.Client.Services().List(nil)
		for _, ns := range list {
			for _, s := range ns.Services {
				inCatalog = append(inCatalog, s.ServiceName)
			}
		}
		slices.Sort(inConsul)
		slices.Sort(inCatalog)
		if a, b := strings.Join(inConsul, " "), strings.Join(inCatalog, " "); err != nil || a != consul || b != native {
			return fmt.Errorf("Consul has %q, the catalog has %q, %v, want %q and %q", a, b, err, consul, native)
		}
		return nil
	})
}

// running returns the running allocation of each group.
func (m *consulMove) running() map[string]string {
	m.Helper()
	out := map[string]string{}
	for _, a := range harness.Await(m.T, m.agent, "shop", "running", 2) {
		out[a.TaskGroup] = a.ID
	}
	return out
}

// TestConsulMove moves a job from Consul to native services and back, as the page about it says. The task without a token of
// Consul runs on. The other one is replaced, because its identity changes.
func TestConsulMove(t *testing.T) {
	harness.NeedsRoot(t)
	m := &consulMove{T: t, consul: testconsul.Start(t, testconsul.Config{ACL: true}), config: filepath.Join(harness.TempDir(t), "agent.hcl")}
	m.token = m.consul.NewToken(t, `agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" } service_prefix "" { policy = "write" }`)
	m.setting("")
	dir := harness.TempDir(t)
	m.agent = harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + m.config}})
	defer func() { harness.PurgeAll(t, m.agent) }() // before the last agent is stopped
	t.Setenv("CONSUL_HTTP_ADDR", m.consul.Addr())
	t.Setenv("CONSUL_HTTP_TOKEN", m.consul.Management())
	if out, err := harness.Command(t, m.agent, "setup", "consul", "-y", "-jwks-url="+m.agent.Address()+"/.well-known/jwks.json"); err != nil {
		t.Fatal(out)
	}
	group := func(name, block string) string {
		return fmt.Sprintf("group %q {\n  service {\n    name = %q\n    port = \"80\"\n    address = \"127.0.0.1\"\n  }\n%s\n}\n", name, name,
			harness.Shell("exec sleep 1000", block))
	}
	job := "job \"shop\" {\n" + group("plain", "") + group("token", "consul {}") + "}"

	harness.Run(t, m.agent, job)
	m.registered("start", "plain token", "")
	before := m.running()

	m.restart(`consul = "nomad"`)
	m.registered("another setting", "plain token", "")
	harness.Run(t, m.agent, job)
	m.registered("registered again", "", "plain token")
	native := m.running()
	if native["plain"] != before["plain"] || native["token"] == before["token"] {
		t.Errorf("allocations %v were %v: want the first to stay and the second to be replaced", native, before)
	}

	m.restart("")
	m.registered("the way back", "", "plain token")
	harness.Run(t, m.agent, job)
	m.registered("registered in Consul", "plain token", "")
	if back := m.running(); back["plain"] != before["plain"] || back["token"] == native["token"] {
		t.Errorf("allocations %v were %v: want the first to stay and the second to be replaced", back, native)
	}
	// The token of the first registration of plain was replaced: it stays valid for a minute, also if the agent restarts.
	if n := len(m.consul.Logins()); n != 3 && n != 4 {
		t.Errorf("%d tokens of logins, want those of two services and a task, and at most one that was replaced", n)
	}
}
