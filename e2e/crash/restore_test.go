package crash_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Snapshots are restored into a running cluster with a client. Tasks that ended since then are
// reported again, running ones continue, and unknown ones are stopped. A node that is missing in
// the snapshot registers by itself.
func TestRestoreWithARunningClient(t *testing.T) {
	s := harness.StartServers(t)
	empty := snapshotOf(t, s.All[1]) // no node yet
	dir, gate := filepath.Join(harness.TempDir(t), "client"), filepath.Join(harness.TempDir(t), "gate")
	cfg := filepath.Join(harness.TempDir(t), "raw.hcl")
	harness.WriteFile(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	cl := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
			fmt.Sprintf("-servers=127.0.0.1:%d", s.All[0].RPC)}})
	defer harness.PurgeAll(t, cl)
	run := func(i int) (*api.AllocationListStub, string) {
		harness.RegisterRetry(t, s.All[2], harness.CountingJob(i, gate))
		waitAlloc(s, cl, harness.CountingID(i), "running")
		a := harness.OnlyAlloc(t, cl, harness.CountingID(i))
		return a, harness.PID(t, cl, a)
	}
	ends, _ := run(0)
	goesOn, pid := run(harness.CountingEnded)
	raw := snapshotOf(t, s.All[2])

	_, later := run(harness.CountingEnded + 1)
	harness.WriteFile(t, gate, "")
	waitAlloc(s, cl, harness.CountingID(0), "failed")
	restoreTo(t, s.All[0], raw)
	waitAlloc(s, cl, harness.CountingID(0), "failed")
	if got := harness.OnlyAlloc(t, cl, harness.CountingID(0)); got.ID != ends.ID || got.TaskStates["t"] == nil ||
		got.TaskStates["t"].State != "dead" {
		t.Errorf("the allocation that ended is %s, was %s: %+v", got.ID, ends.ID, got.TaskStates["t"])
	}
	harness.Within(t, 20*time.Second, "the unknown allocation is stopped", func() bool { return harness.Gone(later) })
	waitAlloc(s, cl, harness.CountingID(harness.CountingEnded), "running")
	if got := harness.OnlyAlloc(t, cl, harness.CountingID(harness.CountingEnded)); got.ID != goesOn.ID || harness.PID(t, cl, got) != pid ||
		harness.Gone(pid) {
		t.Error("the running task did not continue")
	}

	// The node is not in this state.
	restoreTo(t, s.All[1], empty)
	harness.Within(t, 20*time.Second, "the node registers again", func() bool {
		nodes, _, err := s.All[0].Client.Nodes().List(nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	harness.Within(t, 20*time.Second, "everything is stopped", func() bool { return harness.Gone(pid) })
	run(harness.CountingEnded + 2)
}

// waitAlloc waits until the only allocation of a job has a status.
func waitAlloc(s *harness.Servers, ask *cluster.Agent, job, status string) {
	s.T.Helper()
	harness.Within(s.T, 20*time.Second, job+" is "+status, func() bool {
		allocs, _, err := ask.Client.Jobs().Allocations(job, true, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == status
	})
}

func snapshotOf(t *testing.T, a *cluster.Agent) []byte {
	t.Helper()
	body, err := a.Client.Operator().Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func restoreTo(t *testing.T, a *cluster.Agent, raw []byte) {
	t.Helper()
	if _, err := a.Client.Operator().SnapshotRestore(bytes.NewReader(raw), nil); err != nil {
		t.Fatal(err)
	}
}

// The leader is killed while a follower forwards its snapshot: the command fails with an error, and
// leaves no file.
func TestLeaderDiesDuringASave(t *testing.T) {
	s := harness.StartServers(t)
	for i := range 24 { // 18 MiB of incompressible data: more than sockets buffer
		text := make([]byte, 768<<10)
		rand.Read(text)
		id, kind, count := fmt.Sprintf("big-%d", i), "batch", 0
		job := &api.Job{ID: &id, Name: &id, Type: &kind, Meta: map[string]string{"text": base64.StdEncoding.EncodeToString(text)},
			TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count,
				Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Config: map[string]any{"command": "/bin/true"}}}}}}
		harness.RegisterRetry(t, s.All[0], job)
	}
	lead := s.Agreed()
	through := s.All[(lead+1)%3]
	var once sync.Once
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Get(through.Address() + r.URL.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Digest", resp.Header.Get("Digest"))
		io.CopyN(w, resp.Body, 64<<10)
		once.Do(func() {
			if err := s.All[lead].Kill(); err != nil {
				t.Error(err)
			}
		})
		if _, err := io.Copy(w, resp.Body); err == nil {
			t.Error("the truncated body ends without an error")
		}
	}))
	defer proxy.Close()
	dir := harness.TempDir(t)
	cmd := exec.Command(through.Bin, "operator", "snapshot", "save", "-address="+proxy.URL, "x.snap")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Error saving snapshot") {
		t.Errorf("save: %v, %s", err, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	cmd = exec.Command(through.Bin, "operator", "snapshot", "save", "-address="+through.Address(), "x.snap")
	cmd.Dir = dir
	harness.Within(t, 20*time.Second, "a leader", func() bool { now := s.Leader(through); return now >= 0 && now != lead })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("save after the election: %v, %s", err, out)
	}
}
