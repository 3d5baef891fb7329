package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// free chooses the ports itself.
const free = "ports {\n http = 0\n rpc = 0\n serf = 0\n}\n"

// write creates a configuration file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// build creates an agent from arguments.
func build(t *testing.T, w io.Writer, args ...string) (*agent.Agent, error) {
	t.Helper()
	set, err := config.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return agent.New(set, func() (*config.Settings, error) { return config.Parse(args) }, w)
}

// serverOnly returns the arguments of an agent that is a server and not a client.
func serverOnly(t *testing.T, config string) []string {
	t.Helper()
	return []string{"-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", config}
}

// run runs an agent until the test ends or stop is called.
func run(t *testing.T, args ...string) (a *agent.Agent, stop func()) {
	t.Helper()
	out := &testbuffer.Buffer{}
	a, err := build(t, out, args...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run() = %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the agent does not stop")
		}
		if t.Failed() {
			t.Log(out)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

// get decodes a JSON response of the API.
func get(a *agent.Agent, path string, v any) error {
	resp, err := http.Get("http://" + a.Addr() + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

func readyNodes(a *agent.Agent) int {
	var nodes []struct{ Status string }
	if get(a, "/v1/nodes", &nodes) != nil {
		return 0
	}
	n := 0
	for _, node := range nodes {
		if node.Status == "ready" {
			n++
		}
	}
	return n
}

// submit registers a job of one mock task.
func submit(t *testing.T, a *agent.Agent, config string) {
	t.Helper()
	job := `{"Job": {"ID": "j", "Name": "j", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [
		{"Name": "main", "Driver": "mock_driver", "Config": ` + config + `, "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}}`
	req, err := http.NewRequest(http.MethodPut, "http://"+a.Addr()+"/v1/jobs", strings.NewReader(job))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("register: %d %s", resp.StatusCode, text)
	}
}

func allocStatus(a *agent.Agent) string {
	var allocs []struct{ ClientStatus string }
	if get(a, "/v1/job/j/allocations", &allocs) != nil || len(allocs) != 1 {
		return ""
	}
	return allocs[0].ClientStatus
}

func TestDevAgentRunsAJob(t *testing.T) {
	a, stop := run(t, "-dev", "-config", write(t, free))
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(a) == 1 })
	submit(t, a, `{"run_for": "10ms"}`)
	testpace.Until(t, "the job has ended", func() bool { return allocStatus(a) == "complete" })

	var self struct {
		Config map[string]any
		Member map[string]any
		Stats  map[string]map[string]string
	}
	if err := get(a, "/v1/agent/self", &self); err != nil || self.Config["Region"] != "global" ||
		self.Member["Name"] == nil || self.Stats["client"]["node_id"] != a.NodeID() || self.Stats["nomad"]["leader"] != "true" {
		t.Errorf("self = %+v, %v", self, err)
	}
	var health map[string]struct{ OK bool }
	if err := get(a, "/v1/agent/health", &health); err != nil || !health["client"].OK || !health["server"].OK {
		t.Errorf("health = %+v, %v", health, err)
	}
	var metrics struct {
		Timestamp string
		Gauges    []struct {
			Name   string
			Labels map[string]string
		}
	}
	if err := get(a, "/v1/metrics", &metrics); err != nil || len(metrics.Gauges) == 0 || metrics.Gauges[0].Labels["host"] == "" {
		t.Errorf("metrics = %+v, %v", metrics, err)
	}
	resp, err := http.Get("http://" + a.Addr() + "/v1/metrics?format=prometheus")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("nomad_")) {
		t.Errorf("prometheus = %q, %v", text, err)
	}
	stop()
}

// A server and a client run in separate agents and communicate over TCP.
func TestServerAndClient_Separate(t *testing.T) {
	srv, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free))
	testpace.Until(t, "there is a leader", func() bool { var l string; return get(srv, "/v1/status/leader", &l) == nil && l != "" })
	var leader string
	if err := get(srv, "/v1/status/leader", &leader); err != nil {
		t.Fatal(err)
	}
	cl, _ := run(t, "-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-servers", leader,
		"-config", write(t, free+"plugin \"mock_driver\" {}\n"))
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
	// The API of the client forwards to the server, which calls the node.
	submit(t, cl, `{"run_for": "1h"}`)
	testpace.Until(t, "the job runs", func() bool { return allocStatus(cl) == "running" })
	var allocs []struct{ ID string }
	if err := get(cl, "/v1/job/j/allocations", &allocs); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*agent.Agent{srv, cl} {
		var files []struct{ Name string }
		if err := get(a, "/v1/client/fs/ls/"+allocs[0].ID+"?path=/", &files); err != nil || len(files) != 2 {
			t.Errorf("ls = %v, %v", files, err)
		}
	}
	if got := cl.Servers(); len(got) != 1 || got[0] != leader {
		t.Errorf("Servers() = %v, want %s", got, leader)
	}
	changeServers(t, srv, cl, leader)
}

// changeServers replaces the servers of a client through its API.
func changeServers(t *testing.T, srv, cl *agent.Agent, leader string) {
	t.Helper()
	put := func(a *agent.Agent, query string) (int, string) {
		req, err := http.NewRequest("PUT", "http://"+a.Addr()+"/v1/agent/servers"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for query, want := range map[string]int{"": 400, "?address=127.0.0.1:nothing": 400, "?address=127.0.0.1&address=" + leader: 200} {
		if code, text := put(cl, query); code != want {
			t.Errorf("PUT /v1/agent/servers%s = %d %s, want %d", query, code, text, want)
		}
	}
	if got := cl.Servers(); len(got) != 2 || !slices.Contains(got, "127.0.0.1:4647") {
		t.Errorf("Servers() = %v", got)
	}
	if code, _ := put(srv, "?address=a"); code != 501 {
		t.Errorf("a server alone answers %d", code)
	}
	testpace.Until(t, "the client still reaches its server", func() bool { return readyNodes(cl) == 1 })
}

// oneLine fails the test unless err is an error with a single line.
func oneLine(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) {
		t.Errorf("New() = %v, want one line with %q", err, want)
	}
}

func TestSecondAgentOnTheSameData(t *testing.T) {
	for _, role := range [][]string{{"-server"}, {"-client", "-servers", "127.0.0.1:1"}} {
		args := append(role, "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free))
		run(t, args...)
		_, err := build(t, io.Discard, args...)
		oneLine(t, err, "in use by another agent")
	}
}

func TestPortTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, c := range []struct{ ports, want string }{
		{fmt.Sprintf("ports {\n http = %d\n rpc = 0\n}\n", port), "already in use"},
		{fmt.Sprintf("ports {\n http = 0\n rpc = %d\n}\n", port), "address already in use"},
	} {
		_, err := build(t, io.Discard, "-dev", "-config", write(t, c.ports))
		oneLine(t, err, c.want)
	}
}

func TestUnwritableData(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "file", "data"), "/proc/nomad"} {
		_, err := build(t, io.Discard, "-server", "-data-dir", path, "-config", write(t, free))
		oneLine(t, err, "data_dir")
	}
}

func TestCorruptState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "client", "state.db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("junk"), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := build(t, io.Discard, "-client", "-servers", "127.0.0.1:1", "-bind", "127.0.0.1", "-data-dir", dir, "-config", write(t, free))
	oneLine(t, err, "corrupt")
	if b, err := os.ReadFile(path); err != nil || len(b) != 40_000 {
		t.Errorf("the state was changed: %d bytes, %v", len(b), err)
	}
	// The agent released its resources: it can start again.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	run(t, "-client", "-servers", "127.0.0.1:1", "-bind", "127.0.0.1", "-data-dir", dir, "-config", write(t, free))
}

// A reload applies the log level. It keeps the old level if the file is invalid.
func TestReload(t *testing.T) {
	path := write(t, free)
	level := func(l string, more ...string) {
		t.Helper()
		text := free + "log_level = \"" + l + "\"\n" + strings.Join(more, "\n")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	level("ERROR")
	out := &testbuffer.Buffer{}
	a, err := build(t, out, "-server", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if got := out.String(); got != "" {
		t.Errorf("at ERROR: %q", got)
	}
	level("DEBUG")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "configuration reloaded") || strings.Contains(got, "require a restart") {
		t.Errorf("at DEBUG: %q", got)
	}
	level("DEBUG", "enable_debug = true", "server { raft_trailing_logs = 9 num_schedulers = 7 start_timeout = \"40s\" }")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `keys="[enable_debug server.start_timeout]"`) {
		t.Errorf("after changes that need a restart: %q", got)
	}
	if got := a.Schedulers(); len(got.Workers) != 7 {
		t.Errorf("%d scheduler workers after the reload, want 7", len(got.Workers))
	}
	level("nonsense")
	if err := a.Reload(); err == nil {
		t.Error("an invalid file was applied")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// One address cannot use all connections. It gets the reason, and other addresses can still connect.
func TestConnectionLimit(t *testing.T) {
	a, _ := run(t, "-dev", "-config", write(t, free+"limits { http_max_conns_per_client = 3 }\n"))
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	// The limit counts accepted connections: send requests until the first rejection.
	testpace.Until(t, "a connection is refused", func() bool {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + a.Addr() + "/v1/status/leader")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusTooManyRequests
	})
	held[0].Close()
	testpace.Until(t, "one that was closed makes room", func() bool {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + a.Addr() + "/v1/status/leader")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// An agent that fails to start leaves no listener and no directory.
func TestFailedStartLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	bad := write(t, free+"plugin \"exec2\" {\n config {\n seccomp_profiles { few = \"/nonexistent/few.json\" }\n }\n}\n")
	if a, err := build(t, io.Discard, "-dev", "-config", bad); err == nil {
		t.Fatalf("New() = %v, want an error", a)
	} else if !strings.Contains(err.Error(), "/nonexistent/few.json") {
		t.Errorf("New() = %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A request body over the limit is rejected before it is read.
func TestLargeBody(t *testing.T) {
	a, _ := run(t, "-dev", "-config", write(t, free+"limits { http_max_request_body = \"1KiB\" }\n"))
	resp, err := http.Post("http://"+a.Addr()+"/v1/jobs", "application/json", strings.NewReader(strings.Repeat("x", 2000)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status = %d, want 413", resp.StatusCode)
	}
}

func TestRunEndsWithACanceledContext(t *testing.T) {
	a, err := build(t, io.Discard, "-dev", "-config", write(t, free))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v", err)
	}
}
