package e2e

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
)

// Snapshots are restored into a running cluster with a client. Tasks that ended since then are
// reported again, running ones continue, and unknown ones are stopped. A node that is missing in
// the snapshot registers by itself.
func TestRestoreWithARunningClient(t *testing.T) {
	s := startServers(t)
	empty := snapshotOf(t, s.all[1]) // no node yet
	dir, gate := filepath.Join(tempDir(t), "client"), filepath.Join(tempDir(t), "gate")
	cfg := filepath.Join(tempDir(t), "raw.hcl")
	write(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	cl := startIn(t, cluster.Options{Dir: dir, Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
		fmt.Sprintf("-servers=127.0.0.1:%d", s.all[0].RPC)}})
	defer purgeAll(t, cl)
	run := func(i int) (*api.AllocationListStub, string) {
		registers(t, s.all[2], countingJob(i, gate))
		s.waitAlloc(cl, jobID(i), "running")
		a := onlyAlloc(t, cl, jobID(i))
		return a, pidOf(t, cl, a)
	}
	ends, _ := run(0)
	goesOn, pid := run(crashEnded)
	raw := snapshotOf(t, s.all[2])

	_, later := run(crashEnded + 1)
	write(t, gate, "")
	s.waitAlloc(cl, jobID(0), "failed")
	restoreTo(t, s.all[0], raw)
	s.waitAlloc(cl, jobID(0), "failed")
	if got := onlyAlloc(t, cl, jobID(0)); got.ID != ends.ID || got.TaskStates["t"] == nil || got.TaskStates["t"].State != "dead" {
		t.Errorf("the allocation that ended is %s, was %s: %+v", got.ID, ends.ID, got.TaskStates["t"])
	}
	within(t, 20*time.Second, "the unknown allocation is stopped", func() bool { return gone(later) })
	s.waitAlloc(cl, jobID(crashEnded), "running")
	if got := onlyAlloc(t, cl, jobID(crashEnded)); got.ID != goesOn.ID || pidOf(t, cl, got) != pid || gone(pid) {
		t.Error("the running task did not continue")
	}

	// The node is not in this state.
	restoreTo(t, s.all[1], empty)
	within(t, 20*time.Second, "the node registers again", func() bool {
		nodes, _, err := s.all[0].Client.Nodes().List(nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	within(t, 20*time.Second, "everything is stopped", func() bool { return gone(pid) })
	run(crashEnded + 2)
}

// gone reports whether a process has ended.
func gone(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err != nil
}

// waitAlloc waits until the only allocation of a job has a status.
func (s *servers) waitAlloc(ask *cluster.Agent, job, status string) {
	s.t.Helper()
	within(s.t, 20*time.Second, job+" is "+status, func() bool {
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
	s := startServers(t)
	for i := range 24 { // 18 MiB of incompressible data: more than sockets buffer
		text := make([]byte, 768<<10)
		rand.Read(text)
		id, kind, count := fmt.Sprintf("big-%d", i), "batch", 0
		job := &api.Job{ID: &id, Name: &id, Type: &kind, Meta: map[string]string{"text": base64.StdEncoding.EncodeToString(text)},
			TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Config: map[string]any{"command": "/bin/true"}}}}}}
		registers(t, s.all[0], job)
	}
	lead := s.agreed()
	through := s.all[(lead+1)%3]
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
			if err := s.all[lead].Kill(); err != nil {
				t.Error(err)
			}
		})
		if _, err := io.Copy(w, resp.Body); err == nil {
			t.Error("the truncated body ends without an error")
		}
	}))
	defer proxy.Close()
	dir := tempDir(t)
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
	within(t, 20*time.Second, "a leader", func() bool { now := s.leader(through); return now >= 0 && now != lead })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("save after the election: %v, %s", err, out)
	}
}
