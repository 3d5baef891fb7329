package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// patience bounds what should take milliseconds, on a busy machine.
const patience = time.Minute

// testDrivers enables further drivers for tests, in addition to exec2. Tasks of raw_exec need no
// privileged = true, as with -dev.
const testDrivers = `
plugin "raw_exec" {
  config {
    enabled                    = true
    legacy_privileged_behavior = true
  }
}
plugin "mock_driver" {
  config {}
}
`

// fleet is a server and its clients, each a separate agent.
type fleet struct {
	t   *testing.T
	srv *cluster.Agent
	dir string
}

// newFleet starts a server with additional configuration.
func newFleet(t *testing.T, extra string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: tempDir(t)}
	cfg := filepath.Join(f.dir, "server.hcl")
	write(t, cfg, extra)
	dir := filepath.Join(f.dir, "server")
	f.srv = startIn(t, cluster.Options{Dir: dir, Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	return f
}

// join starts a client of the fleet; config holds its client block and further configuration.
func (f *fleet) join(name, config string) *cluster.Agent {
	f.t.Helper()
	dir := filepath.Join(f.dir, name)
	cfg := filepath.Join(f.dir, name+".hcl")
	write(f.t, cfg, fmt.Sprintf("name = %q\n", name)+testDrivers+config)
	a := startIn(f.t, cluster.Options{Dir: dir, Args: []string{"-client", "-bind=127.0.0.1",
		fmt.Sprintf("-servers=127.0.0.1:%d", f.srv.RPC), "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	id := nodeID(f.t, a)
	within(f.t, patience, "the node has the test driver", func() bool {
		node, _, err := f.srv.Client.Nodes().Info(id, nil)
		return err == nil && node.Drivers["mock_driver"] != nil
	})
	return a
}

// startIn starts an agent in a new directory.
func startIn(t *testing.T, o cluster.Options) *cluster.Agent {
	t.Helper()
	mkdir(t, o.Dir)
	return start(t, o)
}

// again restarts a killed or stopped agent with its files.
func again(t *testing.T, a *cluster.Agent) *cluster.Agent {
	t.Helper()
	return start(t, a.Options)
}

// purge purges every job; it is deferred to run before the agents end.
func (f *fleet) purge() { purgeAll(f.t, f.srv) }

// run registers a job written in HCL and returns its ID and evaluation.
func run(t *testing.T, a *cluster.Agent, hcl string) (job, eval string) {
	t.Helper()
	j, err := a.Client.Jobs().ParseHCL(hcl, true)
	if err != nil {
		t.Fatalf("ParseHCL() = %v\n%s", err, hcl)
	}
	var resp *api.JobRegisterResponse
	acked(t, "Register "+*j.ID, func() (err error) {
		resp, _, err = a.Client.Jobs().Register(j, nil)
		return err
	})
	return *j.ID, resp.EvalID
}

// acked repeats a write until it is acknowledged: servers that stall have no leader for a time, or
// cannot report the result of a write.
func acked(t *testing.T, what string, write func() error) {
	t.Helper()
	tries := 0
	succeeds(t, what, func() error {
		tries++
		err := write()
		switch code := statusCode(err); {
		case err == nil, tries > 1 && code == http.StatusNotFound: // an earlier attempt deleted it
			return nil
		case code != http.StatusInternalServerError:
			t.Fatalf("%s: %v", what, err)
		}
		return err
	})
}

// evaluated waits for the end of an evaluation.
func evaluated(t *testing.T, a *cluster.Agent, id string) *api.Evaluation {
	t.Helper()
	var out *api.Evaluation
	within(t, patience, "the end of evaluation "+id, func() bool {
		var err error
		out, _, err = a.Client.Evaluations().Info(id, nil)
		return err == nil && out.Status != "pending"
	})
	return out
}

// allocsOf lists the allocations of a job with a status.
func allocsOf(t *testing.T, a *cluster.Agent, job, status string) []*api.AllocationListStub {
	t.Helper()
	var out []*api.AllocationListStub
	for _, al := range allAllocs(t, a, job) {
		if al.ClientStatus == status {
			out = append(out, al)
		}
	}
	return out
}

// allAllocs lists the allocations of a job. It retries until the cluster has a leader.
func allAllocs(t *testing.T, a *cluster.Agent, job string) (all []*api.AllocationListStub) {
	t.Helper()
	succeeds(t, "list the allocations of "+job, func() (err error) {
		all, _, err = a.Client.Jobs().Allocations(job, true, nil)
		return err
	})
	return all
}

// await waits until exactly n allocations of a job have a status, and returns them.
func await(t *testing.T, a *cluster.Agent, job, status string, n int) []*api.AllocationListStub {
	t.Helper()
	var out []*api.AllocationListStub
	defer func() {
		if !t.Failed() {
			return
		}
		all, _, _ := a.Client.Jobs().Allocations(job, true, nil)
		for _, al := range all {
			t.Logf("%s of %s: %s, wanted %s (%s)", al.ID, al.Name, al.ClientStatus, al.DesiredStatus, al.DesiredDescription)
			for name, task := range al.TaskStates {
				for _, ev := range task.Events {
					t.Logf("  %s: %s: %s", name, ev.Type, ev.DisplayMessage)
				}
			}
		}
	}()
	within(t, patience, fmt.Sprintf("%d allocations of %s are %s", n, job, status), func() bool {
		out = allocsOf(t, a, job, status)
		return len(out) == n
	})
	return out
}

// nodesOf counts allocations by node name.
func nodesOf(allocs []*api.AllocationListStub) map[string]int {
	out := map[string]int{}
	for _, al := range allocs {
		out[al.NodeName]++
	}
	return out
}

// nodeStatus waits until a node has a status.
func nodeStatus(t *testing.T, a *cluster.Agent, id, status string) *api.Node {
	t.Helper()
	var out *api.Node
	within(t, patience, "node "+id+" is "+status, func() bool {
		var err error
		out, _, err = a.Client.Nodes().Info(id, nil)
		return err == nil && out.Status == status
	})
	return out
}

// nodeID returns the ID of an agent's node.
func nodeID(t *testing.T, a *cluster.Agent) string {
	t.Helper()
	id, err := a.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// logOf waits until a task has written something.
func logOf(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) string {
	t.Helper()
	text := ""
	within(t, patience, "a line in the log of "+al.Name, func() bool {
		text = log(a, al)
		return strings.HasSuffix(text, "\n")
	})
	return text
}

// fileText waits until a file contains a line.
func fileText(t *testing.T, name string) string {
	t.Helper()
	var text []byte
	within(t, patience, "a line in "+name, func() bool {
		text, _ = os.ReadFile(name)
		return strings.HasSuffix(string(text), "\n")
	})
	return string(text)
}

// get requests a path of the HTTP API and returns status, headers and body.
func get(t *testing.T, a *cluster.Agent, path string) (*http.Response, string) {
	t.Helper()
	return request(t, http.MethodGet, a.Address()+path, "", nil)
}

func request(t *testing.T, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp, string(text)
}

// keysOf returns the set of public keys.
func keysOf(t *testing.T, a *cluster.Agent) string {
	t.Helper()
	text := ""
	within(t, patience, "the keys of "+a.Address(), func() bool {
		_, text = get(t, a, "/.well-known/jwks.json")
		return strings.Contains(text, "kid")
	})
	return text
}

// statusCode returns the HTTP status of an API error, or 0.
func statusCode(err error) int {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
		return e.StatusCode()
	}
	return 0
}
