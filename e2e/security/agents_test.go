package security_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A server with a gossip key and a node that was introduced: their secrets appear in no reply, log
// line, process, command output or file that others can read.
func TestSecretsOfAgentsStayInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it reads the environment of tasks")
	}
	dir := harness.TempDir(t)
	gossip := base64.StdEncoding.EncodeToString([]byte("canary gossip key of thirty-two b"[:32]))
	cfg := filepath.Join(dir, "server.hcl")
	harness.WriteFile(t, cfg, "server {\n  encrypt = \""+gossip+
		"\"\n  client_introduction {\n    enforcement = \"strict\"\n  }\n}\ntelemetry {\n  prometheus_metrics = true\n}\n")
	trace := "-log-level=TRACE"
	srv := harness.StartIn(t, cluster.Options{Dir: filepath.Join(dir, "server"),
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "server", "data"),
			"-config=" + cfg, trace}})
	intro := introduction(t, srv)
	data := filepath.Join(dir, "node", "data")
	drivers := filepath.Join(dir, "node.hcl")
	harness.WriteFile(t, drivers, harness.TestDrivers)
	node := harness.StartIn(t, cluster.Options{Dir: filepath.Join(dir, "node"),
		Env: []string{"NOMAD_CLIENT_INTRO_TOKEN=" + intro, "NOMAD_TOKEN="},
		Args: []string{"-client", "-bind=127.0.0.1", fmt.Sprintf("-servers=127.0.0.1:%d", srv.RPC), "-data-dir=" + data, "-config=" + drivers,
			trace}})
	defer harness.PurgeAll(t, srv)
	job := harness.OneTask("quiet", "/bin/sleep", "600")
	job.TaskGroups[0].Tasks[0].Driver = "raw_exec"
	job.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "x", Audience: []string{"a"}, File: true, TTL: time.Hour}}
	alloc := harness.Register(t, srv, job, "running")
	token := harness.Content(t, filepath.Join(data, "alloc", alloc.ID, "t", "secrets", "nomad_x.jwt"))
	m := harness.StolenKeys(t, srv)
	seed := m.Key.Seed()
	hidden := map[string]string{"the gossip key": gossip,
		"the node's secret ID": harness.Content(t, filepath.Join(data, "client", "secret-id")), "the introduction": signature(intro),
		"a task's token": signature(token),
		"a root key":     string(seed), "a root key in base64": base64.StdEncoding.EncodeToString(seed),
		"a root key in hex": fmt.Sprintf("%x", seed), "a token": "eyJhbGciOi"}
	search := func(where, text string) {
		t.Helper()
		for what, secret := range hidden {
			if strings.Contains(text, secret) {
				t.Errorf("%s: shows %s", where, what)
			}
		}
	}
	shown(t, srv, node, alloc, search)
	processes(t, node, alloc, data, search)
	outputs(t, srv, dir, search)
	for _, args := range [][]string{{"operator", "root", "keyring", "rotate", "-now"},
		{"node", "identity", "renew", harness.NodeID(t, node)}} {
		out, err := onServer(srv, args...)
		if err != nil {
			t.Errorf("nomad %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		search("nomad "+strings.Join(args, " "), out)
	}
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	node = harness.Restart(t, node)
	for _, a := range []*cluster.Agent{srv, node} {
		search("the log in "+a.Dir, harness.Content(t, filepath.Join(a.Dir, "agent.log")))
	}
	if !strings.Contains(harness.Content(t, filepath.Join(node.Dir, "agent.log")), "token(kid=") {
		t.Error("the node's log does not mention its identity: the test checks nothing")
	}
	ownFiles(t, filepath.Join(dir, "server", "data"), data)
}

func signature(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

// introduction returns a token with which one node joins.
func introduction(t *testing.T, srv *cluster.Agent) string {
	t.Helper()
	out, err := onServer(srv, "node", "intro", "create")
	token := strings.TrimSpace(out)
	if err != nil || strings.Count(token, ".") != 2 {
		t.Fatalf("node intro create: %v, %d bytes", err, len(out))
	}
	return token
}

// onServer runs a command against an agent.
func onServer(a *cluster.Agent, args ...string) (string, error) {
	cmd := exec.Command("nomad", args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shown checks the output of the agents.
func shown(t *testing.T, srv, node *cluster.Agent, alloc *api.AllocationListStub, search func(where, text string)) {
	t.Helper()
	id := harness.NodeID(t, node)
	for _, a := range []*cluster.Agent{srv, node} {
		for _, path := range []string{"/v1/agent/self", "/v1/agent/members", "/v1/agent/servers", "/v1/agent/health", "/v1/metrics",
			"/v1/metrics?format=prometheus", "/v1/nodes?resources=true&os=true", "/v1/node/" + id, "/v1/node/" + id + "/allocations",
			"/v1/client/identity?node_id=" + id, "/v1/client/stats?node_id=" + id, "/v1/node/pools", "/v1/node/pool/default/nodes",
			"/v1/node/pool/default/jobs", "/v1/operator/keyring/keys", "/v1/operator/raft/configuration", "/v1/operator/autopilot/health",
			"/v1/operator/autopilot/configuration", "/v1/operator/scheduler/configuration", "/v1/namespaces", "/v1/jobs", "/v1/job/quiet",
			"/v1/job/quiet/allocations", "/v1/job/quiet/versions?diffs=true", "/v1/job/quiet/evaluations", "/v1/job/quiet/summary",
			"/v1/jobs/statuses",
			"/v1/allocations?resources=true&task_states=true", "/v1/allocation/" + alloc.ID, "/v1/evaluations", "/v1/evaluation/" + alloc.EvalID,
			"/v1/evaluation/" + alloc.EvalID + "/allocations", "/v1/client/allocation/" + alloc.ID + "/stats",
			"/v1/client/allocation/" + alloc.ID + "/checks", "/v1/client/fs/ls/" + alloc.ID + "?path=/t",
			"/v1/client/fs/ls/" + alloc.ID + "?path=/t/secrets", "/v1/client/fs/cat/" + alloc.ID + "?path=t/secrets/nomad_x.jwt",
			"/v1/client/fs/cat/" + alloc.ID + "?path=t/SECRETS/nomad_x.jwt",
			"/v1/client/fs/readat/" + alloc.ID + "?path=t/secrets/nomad_x.jwt&offset=0&limit=999",
			"/v1/client/fs/stat/" + alloc.ID + "?path=t/secrets/nomad_x.jwt", "/v1/client/fs/logs/" + alloc.ID + "?task=t&type=stderr",
			"/v1/status/peers", "/.well-known/jwks.json", "/v1/search"} {
			_, body := harness.Get(t, a, path)
			search(path, body)
		}
		harness.Within(t, harness.Patience, "an event of the allocation", func() bool { // unless it was quiet before
			_, events, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/event/stream", "")
			search("/v1/event/stream", events)
			return strings.Contains(events, alloc.ID)
		})
	}
	if _, body := harness.Get(t, node, "/v1/allocation/"+alloc.ID); !strings.Contains(body, alloc.ID) {
		t.Error("no output of the node about the allocation: the test checks nothing")
	}
}

// processes checks what the kernel shows of the processes on the node.
func processes(t *testing.T, node *cluster.Agent, alloc *api.AllocationListStub, data string, search func(where, text string)) {
	t.Helper()
	task := pidIn(t, filepath.Join(data, "alloc", alloc.ID))
	for what, pid := range map[string]int{"the supervisor": parentOf(t, task), "the task": task} {
		for _, file := range []string{"cmdline", "environ", "comm", "status"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				t.Fatal(err)
			}
			search(what+": "+file, string(b))
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", node.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	search("the agent: cmdline", string(b))
}

// outputs checks the output of commands that read archives.
func outputs(t *testing.T, srv *cluster.Agent, dir string, search func(where, text string)) {
	t.Helper()
	archive := filepath.Join(dir, "a.snap")
	for _, args := range [][]string{{"operator", "snapshot", "save", archive}, {"operator", "snapshot", "inspect", archive},
		{"operator", "snapshot", "state", archive}, {"operator", "snapshot", "redact", archive},
		{"operator", "root", "keyring", "list", "-verbose"}, {"node", "status", "-verbose"}, {"server", "members", "-verbose"},
		{"job", "status", "-verbose", "quiet"}, {"job", "inspect", "quiet"}} {
		out, err := onServer(srv, args...)
		if err != nil {
			t.Errorf("nomad %s: %v\n%.300s", strings.Join(args, " "), err, out)
		}
		search("nomad "+strings.Join(args, " "), out)
	}
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	search("the redacted archive", string(b))
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v", info.Mode(), err)
	}
}

// ownFiles checks that other users have no rights on the files of the agents.
func ownFiles(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil {
				info, err = e.Info()
			}
			if errors.Is(err, fs.ErrNotExist) && path != dir {
				return nil // the agents continue in the meantime
			}
			if err != nil {
				return err
			}
			inside := strings.Contains(path, "/data/alloc")
			if !inside && path != dir && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
