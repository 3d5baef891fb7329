package agent_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// ownRights are the rights of an agent that registers itself and finds others.
const ownRights = `agent_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }
service_prefix "nomad" { policy = "write" }`

// inConsul returns a configuration with a consul block.
func inConsul(c *testconsul.Agent, token, more string) string {
	return free + fmt.Sprintf("consul {\n address = %q\n token = %q\n%s\n}\n", c.Addr(), token, more)
}

// registered returns the services of Consul, as sorted words of role, name, tags and the status of the check.
func registered(c *testconsul.Agent) (out []string) {
	status := map[string]string{}
	for _, k := range c.Checks() {
		status[k.ServiceID] = k.Status
	}
	for id, s := range c.Services() {
		role, _, _ := strings.Cut(strings.TrimPrefix(id, "_nomad-"), "-")
		out = append(out, strings.Join([]string{role, s.Service, strings.Join(s.Tags, ","), status[id]}, " "))
	}
	slices.Sort(out)
	return out
}

// untilRegistered waits for an exact set of services. The checks run more often than their interval of ten seconds.
func untilRegistered(t *testing.T, c *testconsul.Agent, want ...string) {
	t.Helper()
	slices.Sort(want)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("registered %q", registered(c))
		}
	})
	testpace.Until(t, fmt.Sprintf("the services %q", want), func() bool {
		c.Advance(time.Second)
		return slices.Equal(registered(c), want)
	})
}

// Agents that know only Consul form a cluster: servers find each other, and a client finds them. Each has its own
// services, which Consul finds healthy, and removes them when it stops.
func TestRegistration(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	file := write(t, inConsul(c, c.NewToken(t, ownRights), "tags = [\"edge\"]"))
	start := func(name string, args ...string) (*agent.Agent, func()) {
		return run(t, append(args, "-bind", "127.0.0.1", "-node", name, "-data-dir", clienttest.Dir(t), "-config", file)...)
	}
	one, stopOne := start("one", "-server", "-bootstrap-expect", "2")
	_, stopTwo := start("two", "-server", "-bootstrap-expect", "2")
	_, stopNode := start("node", "-client")
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(one) == 1 })
	server := []string{"server nomad http,edge passing", "server nomad rpc,edge passing", "server nomad serf,edge passing"}
	untilRegistered(t, c, slices.Concat(server, server, []string{"client nomad-client http,edge passing"})...)
	stopNode()
	untilRegistered(t, c, slices.Concat(server, server)...)
	stopTwo()
	if got := registered(c); len(got) != 3 {
		t.Errorf("after the second server has stopped: %q", got)
	}
	stopOne()
	if got := c.IDs(); len(got) > 0 {
		t.Errorf("after all have stopped: %q", got)
	}
}

// A token without the right to register the agent is one clear line of the log. After a reload with another token, the
// agent is registered, also under a new name, and after one without auto_advertise it is not.
func TestRegistration_Reload(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	c.Expect("Permission denied: 'service:write'")
	weak, strong := c.NewToken(t, `agent_prefix "" { policy = "read" }`), c.NewToken(t, ownRights)
	file := write(t, inConsul(c, weak, ""))
	out := &testbuffer.Buffer{}
	a, err := build(t, out, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	const line = "the agent's own services cannot be registered in Consul"
	testpace.Until(t, "the line of the log", func() bool { return strings.Contains(out.String(), line) })
	text := inConsul(c, strong, "server_service_name = \"nomad-servers\"") + "region = \"other\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	untilRegistered(t, c, "server nomad-servers http passing", "server nomad-servers rpc passing", "server nomad-servers serf passing")
	if err := os.WriteFile(file, []byte(inConsul(c, strong, "auto_advertise = false")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	untilRegistered(t, c)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
	log := out.String()
	if strings.Count(log, line) != 1 || !strings.Contains(log, "keys=[region]") || strings.Contains(log, weak) || strings.Contains(log, strong) {
		t.Errorf("log:\n%s", log)
	}
}

// After a reload with another address, the services are registered there at once. Those at the previous address stay, and the
// log names it.
func TestRegistration_Address(t *testing.T) {
	before, now := testconsul.Start(t, testconsul.Config{}), testconsul.Start(t, testconsul.Config{})
	file, out := write(t, inConsul(before, "", "")), &testbuffer.Buffer{}
	a, err := build(t, out, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	server := []string{"server nomad http passing", "server nomad rpc passing", "server nomad serf passing"}
	untilRegistered(t, before, server...)
	if err := os.WriteFile(file, []byte(inConsul(now, "", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	untilRegistered(t, now, server...)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("registered after %s, want it before the next list is due", took)
	}
	untilRegistered(t, before, server...)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
	if log := out.String(); strings.Count(log, "before="+before.Addr()) != 1 {
		t.Errorf("the log does not name the previous address:\n%s", log)
	}
}

// A Consul that hangs delays neither the start nor the exit of the agent.
func TestRegistration_Hangs(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{})
	for name, late := range map[string]bool{"from the start": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			if err := c.Set(testconsul.Mode{Hang: !late}); err != nil {
				t.Fatal(err)
			}
			a, stop := run(t, "-dev", "-config", write(t, inConsul(c, "", "timeout = \"1h\"")))
			testpace.Until(t, "the node is ready", func() bool { return readyNodes(a) == 1 })
			if late {
				untilRegistered(t, c, "client nomad-client http passing", "server nomad http passing", "server nomad rpc passing")
				if err := c.Set(testconsul.Mode{Hang: true}); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			stop()
			if took := time.Since(start); took > time.Minute {
				t.Errorf("the exit took %v", took)
			}
		})
	}
}

// Clusters other than default are reported once, and a new one needs a restart.
func TestRegistration_Clusters(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{})
	block := func(name string) string {
		return fmt.Sprintf("consul {\n name = %q\n address = %q\n}\n", name, c.Addr())
	}
	file := write(t, free+block("default")+block("west"))
	out := &testbuffer.Buffer{}
	a, err := build(t, out, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	untilRegistered(t, c, "server nomad http passing", "server nomad rpc passing", "server nomad serf passing")
	if err := os.WriteFile(file, []byte(free+block("default")+block("east")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
	if log := out.String(); strings.Count(log, "multiple Consul configurations") != 1 || !strings.Contains(log, "keys=[consul]") {
		t.Errorf("log:\n%s", log)
	}
}

// Consul checks an API with TLS without knowing its CA. One that demands certificates of callers has no check.
func TestRegistration_TLS(t *testing.T) {
	files := testpki.New(t).Agent("server.global.nomad")
	for key, status := range map[string]string{"http = true": " passing", "http = true\n verify_https_client = true": " "} {
		c := testconsul.Start(t, testconsul.Config{})
		run(t, serverOnly(t, write(t, inConsul(c, "", "")+tlsBlock(files, key)))...)
		untilRegistered(t, c, "server nomad http"+status, "server nomad rpc passing", "server nomad serf passing")
	}
}

// -dev-consul uses the Consul of the environment. Without gossip, the server has no service for it.
func TestRegistration_Dev(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{})
	t.Setenv("CONSUL_HTTP_ADDR", c.Addr())
	a, stop := run(t, "-dev-consul", "-config", write(t, free))
	untilRegistered(t, c, "client nomad-client http passing", "server nomad http passing", "server nomad rpc passing")
	testpace.Until(t, "the node has the facts", func() bool {
		return strings.Contains(body(t, a.Addr(), "/v1/node/"+a.NodeID()), `"consul.version":"1.22.1"`)
	})
	stop()
	if got := c.IDs(); len(got) > 0 {
		t.Errorf("after the stop: %q", got)
	}
}
