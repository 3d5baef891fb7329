package identity_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// consulWorkloads has a service and a task with tokens of Consul, and a task without. A task prints whether its environment
// has the token of its file.
const consulWorkloads = `
job "shop" {
  group "g" {
    service {
      name    = "${NOMAD_JOB_NAME}-web"
      port    = "8080"
      address = "127.0.0.1"
      check {
        type     = "script"
        task     = "t"
        command  = "/bin/true"
        interval = "1s"
        timeout  = "10s"
      }
    }
    task "t" {
      driver = "raw_exec"
      consul {}
      config {
        command = "/bin/sh"
        args    = ["-c", "[ -n \"$CONSUL_TOKEN\" ] && [ \"$CONSUL_HTTP_TOKEN\" = \"$(cat $NOMAD_SECRETS_DIR/consul_token)\" ] && echo same; exec sleep 600"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
    task "plain" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "[ -z \"$CONSUL_TOKEN$CONSUL_HTTP_TOKEN\" ] && echo none; exec sleep 600"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
`

// trustCluster makes the objects of Consul with which workloads of the cluster log in, as operators do.
func trustCluster(t *testing.T, c *testconsul.Agent, jwks string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nomad", "setup", "consul", "-y", "-jwks-url="+jwks)
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+c.Addr(), "CONSUL_HTTP_TOKEN="+c.Management())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func consulClient(t *testing.T, c *testconsul.Agent, token string) *consul.Client {
	t.Helper()
	client, err := consul.NewClient(&consul.Config{Address: c.Addr(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestConsul runs a job whose service and task log in to Consul: from a start without a trusting Consul over a kill of the agent
// to the stop. No token appears in anything that the agent emits.
func TestConsul(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	c.Expect("auth method") // before trustCluster
	agentToken := c.NewToken(t, `agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" } service_prefix "" { policy = "write" }`)
	a, dir := consulAgent(t, c, agentToken)
	data := filepath.Join(dir, "d")
	harness.Run(t, a, consulWorkloads)
	harness.Within(t, harness.Patience, "the event of the refused login", func() bool {
		for _, al := range harness.AllAllocs(t, a, "shop") {
			if strings.Contains(strings.Join(messages(al, "t"), "\n"), `auth method "nomad-workloads" does not exist in Consul`) {
				return al.TaskStates["t"].State == "pending" && al.TaskStates["plain"].State == "running"
			}
		}
		return false
	})
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	al := harness.Await(t, a, "shop", "running", 1)[0]
	secrets := filepath.Join(data, "alloc", al.ID, "t", "secrets", "consul_token")
	harness.Within(t, time.Minute, "the login is repeated, the service is registered", func() bool {
		_, err := os.Stat(secrets)
		return len(c.Services()) == 1 && err == nil
	})
	token := harness.Content(t, secrets)
	harness.Within(t, harness.Patience, "the task runs", func() bool {
		al = harness.OnlyAlloc(t, a, "shop")
		return al.TaskStates["t"].State == "running"
	})
	for _, s := range c.Services() {
		if s.Service != "shop-web" {
			t.Errorf("service %q, want shop-web", s.Service)
		}
	}
	if _, _, err := consulClient(t, c, token).KV().List("", nil); err != nil {
		t.Errorf("the token of the file: %v", err)
	}
	for task, want := range map[string]string{"t": "same", "plain": "none"} {
		out := filepath.Join(data, "alloc", al.ID, "alloc", "logs", task+".stdout.0")
		harness.Within(t, harness.Patience, "the output of "+task, func() bool { return harness.Content(t, out) == want })
	}
	if _, err := os.Stat(filepath.Join(data, "alloc", al.ID, "plain", "secrets", "consul_token")); err == nil {
		t.Error("a task without a consul block has a token")
	}
	tokens := []string{agentToken, c.Management()}
	for _, l := range c.Logins() {
		tokens = append(tokens, l.SecretID)
	}
	if len(tokens) != 4 {
		t.Fatalf("%d tokens of logins, want 2", len(tokens)-2)
	}
	logins := c.Calls("POST /v1/acl/login")
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	if now := harness.Await(t, a, "shop", "running", 1)[0]; !now.TaskStates["t"].StartedAt.Equal(al.TaskStates["t"].StartedAt) ||
		now.TaskStates["t"].Restarts > 0 {
		t.Error("the task was started again with the agent")
	}
	emitsNone(t, a, al, "consul_token", tokens)
	bundle := debugBundle(t, a, c, agentToken)
	if !strings.Contains(bundle, al.ID) || !strings.Contains(bundle, "consul.members.servers") {
		t.Error("the debug bundle has not the allocation, or not the metrics of Consul")
	}
	search(t, "the debug bundle", bundle, tokens)
	if n := c.Calls("POST /v1/acl/login"); n != logins || harness.Content(t, secrets) != token {
		t.Errorf("%d logins after the restart, want %d; the file has its token: %t", n, logins, harness.Content(t, secrets) == token)
	}
	harness.StopAndWait(t, a, "shop", 1)
	harness.Within(t, harness.Patience, "all are logged out", func() bool { return len(c.Logins()) == 0 && len(c.IDs()) == 0 })
	log := harness.Content(t, filepath.Join(dir, "agent.log"))
	if !strings.Contains(log, "login to Consul failed") {
		t.Error("the log has no line about the login")
	}
	search(t, "the log", log, append(tokens, "eyJ")) // the beginning of a JWT
}

// consulAgent starts a server and client with a consul block, and returns its directory. Its data is below d.
func consulAgent(t *testing.T, c *testconsul.Agent, token string) (a *cluster.Agent, dir string) {
	t.Helper()
	dir = harness.TempDir(t)
	cfg := filepath.Join(dir, "c.hcl")
	identity := "{\n aud = [\"consul.io\"]\n ttl = \"1h\"\n }\n"
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf(
		"log_level = \"TRACE\"\nconsul {\n address = %q\n token = %q\n auto_advertise = false\n service_identity %s task_identity %s}\n",
		c.Addr(), token, identity, identity))
	a = harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "d"), "-config=" + cfg}})
	harness.Within(t, harness.Patience, "the node has Consul", func() bool {
		node, _, err := a.Client.Nodes().Info(harness.NodeID(t, a), nil)
		return err == nil && node.Attributes["consul.version"] != ""
	})
	return a, dir
}

// TestConsul_Lifecycle checks that tokens follow a restart of the task, an update in place, a drain, a loss of Consul's tokens,
// and a stop while Consul hangs or the task waits for its token.
func TestConsul_Lifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	a, dir := consulAgent(t, c, c.Management())
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	secrets := func() map[string]string { // by workload
		out := map[string]string{}
		for _, l := range c.Logins() {
			name := "t"
			if len(l.ServiceIdentities) > 0 {
				name = l.ServiceIdentities[0].ServiceName
			}
			out[name] += l.SecretID
		}
		return out
	}
	running := func() (string, map[string]string) {
		t.Helper()
		al := harness.Await(t, a, "shop", "running", 1)[0]
		harness.Within(t, time.Minute, "the tokens and a service", func() bool { return len(secrets()) > 1 && len(c.Services()) == 1 })
		return al.ID, secrets()
	}
	harness.Run(t, a, consulWorkloads)
	id, first := running()

	if out, err := harness.Command(t, a, "alloc", "restart", id); err != nil {
		t.Fatalf("alloc restart: %v\n%s", err, out)
	}
	if again, got := running(); again != id || !maps.Equal(got, first) {
		t.Error("a restart of the tasks changed the tokens")
	}

	harness.Run(t, a, strings.Replace(consulWorkloads, "${NOMAD_JOB_NAME}-web", "front", 1))
	harness.Within(t, time.Minute, "the renamed service", func() bool {
		for _, s := range c.Services() {
			if s.Service != "front" {
				return false
			}
		}
		return len(c.Services()) == 1 && secrets()["front"] != "" // the old token is logged out later
	})
	again, second := running()
	if again != id || second["t"] != first["t"] {
		t.Error("an update of the service changed the allocation or the token of the task")
	}

	c.Expect("ACL not found")
	for id := range c.Services() {
		if err := consulClient(t, c, c.Management()).Agent().ServiceDeregister(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range second {
		c.Revoke(secret)
	}
	harness.Within(t, time.Minute, "a new token and the service after Consul lost them", func() bool {
		return len(c.Services()) == 1 && secrets()["front"] != "" && secrets()["front"] != second["front"]
	})

	drain := func(on bool) {
		t.Helper()
		flag := map[bool]string{true: "-enable", false: "-disable"}[on]
		if out, err := harness.Command(t, a, "node", "drain", flag, "-yes", "-detach", harness.NodeID(t, a)); err != nil {
			t.Fatalf("node drain: %v\n%s", err, out)
		}
	}
	drain(true)
	harness.Within(t, time.Minute, "the drain logs out", func() bool { return len(c.Logins()) == 0 && len(c.IDs()) == 0 })
	drain(false)
	if again, _ := running(); again == id {
		t.Error("the drained allocation runs")
	}

	if err := c.Set(testconsul.Mode{Hang: true}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	harness.StopAndWait(t, a, "shop", 2)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %s while Consul hangs", took)
	}
	if err := c.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, a, strings.Replace(consulWorkloads, "\"shop\"", "\"late\"", 1))
	harness.Within(t, harness.Patience, "the task waits", func() bool {
		for _, al := range harness.AllAllocs(t, a, "late") {
			if strings.Contains(strings.Join(messages(al, "t"), "\n"), "Consul is unreachable") && al.TaskStates["plain"].State == "running" {
				return al.TaskStates["t"].State == "pending"
			}
		}
		return false
	})
	began = time.Now()
	harness.StopAndWait(t, a, "late", 1)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stop of a waiting task took %s", took)
	}
	harness.PurgeAll(t, a)
	harness.WaitCollected(t, a, filepath.Join(dir, "d"))
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a) // the tokens of the collected allocation are not forgotten
	if len(c.Logins()) == 0 {
		t.Error("logged out while Consul is away")
	}
	if err := c.Set(testconsul.Mode{}); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, time.Minute, "all are logged out", func() bool { return len(c.Logins()) == 0 })
	search(t, "the log", harness.Content(t, filepath.Join(dir, "agent.log")), slices.Concat(slices.Collect(maps.Values(first)), []string{"eyJ"}))
}

// messages returns the events of a task.
func messages(al *api.AllocationListStub, task string) (out []string) {
	if s := al.TaskStates[task]; s != nil {
		for _, e := range s.Events {
			out = append(out, e.DisplayMessage)
		}
	}
	return out
}

// emitsNone reads everything that an agent emits about an allocation of job shop, whose task t has a token in a file.
func emitsNone(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, file string, tokens []string) {
	t.Helper()
	for _, path := range []string{"/v1/agent/self", "/v1/allocations?task_states=true", "/v1/allocation/" + al.ID, "/v1/job/shop",
		"/v1/job/shop/allocations", "/v1/node/" + al.NodeID, "/v1/node/" + al.NodeID + "/allocations", "/v1/metrics", "/v1/evaluations",
		"/v1/client/allocation/" + al.ID + "/stats", "/v1/client/allocation/" + al.ID + "/checks", "/v1/allocation/" + al.ID + "/services",
		"/v1/client/stats?node_id=" + al.NodeID, "/v1/client/fs/ls/" + al.ID + "?path=/t", "/v1/client/metadata?node_id=" + al.NodeID} {
		resp, text := harness.Get(t, a, path)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", path, resp.Status)
		}
		search(t, path, text, tokens)
	}
	for _, path := range []string{"cat/%s?path=/t/secrets/%s", "ls/%s?path=/t/secrets%.0s", "readat/%s?path=/t/secrets/%s&offset=0&limit=99",
		"stream/%s?path=/t/secrets/%s"} {
		path = fmt.Sprintf("/v1/client/fs/"+path, al.ID, file)
		resp, text := harness.Get(t, a, path)
		if resp.StatusCode == http.StatusOK {
			t.Errorf("GET %s: %s: %s", path, resp.Status, text)
		}
		search(t, path, text, tokens)
	}
	_, snapshot := harness.Get(t, a, "/v1/operator/snapshot")
	search(t, "the snapshot", unpacked(t, snapshot), tokens)
}

// debugBundle returns the files of a debug bundle of the agent and of Consul.
func debugBundle(t *testing.T, a *cluster.Agent, c *testconsul.Agent, token string) string {
	t.Helper()
	out := harness.TempDir(t)
	if text, err := harness.Command(t, a, "operator", "debug", "-duration=1s", "-interval=1s", "-node-id=all", "-server-id=all",
		"-consul-http-addr="+c.Addr(), "-consul-token="+token, "-output="+out); err != nil {
		t.Fatalf("operator debug: %v\n%s", err, text)
	}
	archives, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	return bundled(t, archives[0])
}

// bundled returns the files of a debug bundle, a directory or an archive.
func bundled(t *testing.T, at string) string {
	t.Helper()
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return unpacked(t, harness.FileText(t, at))
	}
	var all strings.Builder
	err := filepath.WalkDir(at, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all.WriteString(harness.FileText(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	zipped, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for files := tar.NewReader(zipped); ; {
		if _, err := files.Next(); errors.Is(err, io.EOF) {
			return all.String()
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, files); err != nil {
			t.Fatal(err)
		}
	}
}

// search reports a token in a text.
func search(t *testing.T, what, text string, tokens []string) {
	t.Helper()
	if text == "" {
		t.Errorf("%s is empty", what)
	}
	for i, token := range tokens {
		if strings.Contains(text, token) {
			t.Errorf("%s has token %d", what, i)
		}
	}
}
