package nodes_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Two regions: requests for the other region are forwarded, including writes and streams, and their
// servers never vote for each other.
func TestRegions(t *testing.T) {
	dir := harness.TempDir(t)
	agent := func(name string, args ...string) *cluster.Agent {
		at := filepath.Join(dir, name)
		return harness.StartIn(t, cluster.Options{Dir: at,
			Args: append([]string{"-bind=127.0.0.1", "-node=" + name, "-data-dir=" + filepath.Join(at, "data")}, args...)})
	}
	a := agent("a", "-server", "-bootstrap-expect=1")
	b := agent("b", "-server", fmt.Sprintf("-join=127.0.0.1:%d", a.Serf))
	far := agent("far", "-server", "-bootstrap-expect=1", "-region=far", fmt.Sprintf("-join=127.0.0.1:%d", b.Serf))
	cfg := filepath.Join(dir, "raw.hcl")
	harness.WriteFile(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	agent("node", "-client", "-region=far", "-config="+cfg, fmt.Sprintf("-servers=127.0.0.1:%d", far.RPC))
	for _, s := range []*cluster.Agent{a, b, far} {
		harness.Within(t, 10*time.Second, "all servers in the member lists", func() bool {
			m, err := s.Client.Agent().Members()
			regions, rerr := s.Client.Regions().List()
			return err == nil && rerr == nil && len(m.Members) == 3 && slices.Equal(regions, []string{"far", "global"})
		})
	}
	follower := b
	if lead, err := a.Client.Status().Leader(); err != nil || !strings.HasSuffix(lead, fmt.Sprint(a.RPC)) {
		follower = a
	}
	harness.Within(t, 10*time.Second, "b is a voter", func() bool {
		conf, err := a.Client.Operator().RaftGetConfiguration(nil)
		return err == nil && len(conf.Servers) == 2
	})

	// A write and reads, from another region's follower.
	job := harness.CountingJob(harness.CountingEnded, "")
	there := &api.QueryOptions{Region: "far"}
	if _, _, err := follower.Client.Jobs().Register(job, &api.WriteOptions{Region: "far"}); err != nil {
		t.Fatal(err)
	}
	defer harness.PurgeAll(t, far)
	if _, _, err := follower.Client.Jobs().Info(*job.ID, nil); err == nil {
		t.Error("the job is in the region of the server that was asked")
	}
	var alloc *api.AllocationListStub
	harness.Within(t, 20*time.Second, "it runs in the other region", func() bool {
		allocs, _, err := follower.Client.Jobs().Allocations(*job.ID, false, there)
		if err != nil || len(allocs) != 1 || allocs[0].ClientStatus != "running" {
			return false
		}
		alloc = allocs[0]
		return true
	})
	follow(t, follower, "far", alloc.ID)
	harness.ExecInRegion(t, follower, "far", alloc)
	if _, _, err := follower.Client.Jobs().Deregister(*job.ID, false, &api.WriteOptions{Region: "far"}); err != nil {
		t.Errorf("Deregister() = %v", err)
	}

	// A job that names its region is forwarded by itself.
	named, region := harness.EmptyJob("named"), "far"
	named.Region = &region
	if _, _, err := follower.Client.Jobs().Register(named, nil); err != nil {
		t.Error(err)
	}
	if got, _, err := far.Client.Jobs().Info("named", nil); err != nil || *got.Region != "far" {
		t.Errorf("the job that names its region: %v", err)
	}

	// The headers of a reply show its origin.
	for path, on := range map[string]*cluster.Agent{"/v1/jobs": a, "/v1/jobs?stale": follower, "/v1/nodes": follower,
		"/v1/jobs?region=far":       follower,
		"/v1/jobs?region=far&stale": a, "/v1/jobs?region=global": far} {
		seen := ""
		defer func() {
			if t.Failed() {
				t.Logf("%s = %s", path, seen)
			}
		}()
		harness.Within(t, harness.Patience, path+" names its origin", func() bool { // retry while there is no leader
			resp, body := harness.Get(t, on, path)
			seen = fmt.Sprintf("%d %s with %v", resp.StatusCode, body, resp.Header)
			index, err := strconv.Atoi(resp.Header.Get("X-Nomad-Index"))
			contact, cerr := strconv.Atoi(resp.Header.Get("X-Nomad-LastContact"))
			stale := strings.Contains(path, "stale")
			return resp.StatusCode == 200 && err == nil && (index != 0 || body == "[]") && resp.Header.Get("X-Nomad-KnownLeader") == "true" &&
				cerr == nil && contact >= 0 && contact <= 5000 && (stale || contact == 0)
		})
	}
	for _, s := range []*cluster.Agent{a, follower, far} {
		for _, path := range []string{"/v1/jobs?region=nowhere", "/v1/client/fs/logs/" + alloc.ID + "?task=t&type=stdout&region=nowhere",
			"/v1/status/leader?region=nowhere"} {
			if resp, body := harness.Get(t, s, path); resp.StatusCode != http.StatusInternalServerError || body != "No path to region" {
				t.Errorf("%s = %d %s", path, resp.StatusCode, body)
			}
		}
		leader, err := s.Client.Status().RegionLeader("far")
		if err != nil || leader != fmt.Sprintf("127.0.0.1:%d", far.RPC) {
			t.Errorf("the leader of far is %s, %v", leader, err)
		}
	}
	for s, voters := range map[*cluster.Agent]int{a: 2, far: 1} {
		conf, err := s.Client.Operator().RaftGetConfiguration(nil)
		if err != nil || len(conf.Servers) != voters {
			t.Errorf("%d voters, %v, want %d", len(conf.Servers), err, voters)
		}
	}
}
