package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	tokenStops = 20
	// mostRefused is the median time for which tokens may be valid after the stop of their
	// allocation; make bench measures it on an idle machine.
	mostRefused = time.Second
)

// doors are all endpoints that accept tokens: HTTP and RPC of each server, which answers from its
// own state, and the API socket of a task.
type doors struct {
	t    *testing.T
	open map[string]func(token string) int // status
}

func doorsOf(t *testing.T, s *harness.Servers, stays harness.Holder) *doors {
	t.Helper()
	pool := rpc.NewPool(rpc.PoolConfig{})
	t.Cleanup(func() { pool.Close() })
	d := &doors{t: t, open: map[string]func(string) int{}}
	for i, a := range s.All {
		d.open[fmt.Sprintf("HTTP of s%d", i)] = func(token string) int {
			code, _, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/jobs?stale", token)
			return code
		}
		d.open[fmt.Sprintf("RPC of s%d", i)] = func(token string) int {
			req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token, AllowStale: true}}
			switch err := pool.Call(t.Context(), fmt.Sprintf("127.0.0.1:%d", a.RPC), "ACL.WhoAmI", req, &message.ACLWhoAmIResponse{}); {
			case err == nil:
				return http.StatusOK
			case errors.Is(err, apierror.ErrPermissionDenied):
				return http.StatusForbidden
			default:
				t.Errorf("ACL.WhoAmI of s%d = %v", i, err)
				return 0
			}
		}
	}
	through := harness.SocketClient(t, stays)
	d.open["API of a task"] = func(token string) int {
		code, _, _ := harness.Fetch(t, through, "GET", "http://task/v1/jobs?stale", token)
		return code
	}
	return d
}

// all reports whether every endpoint answers a token with the status.
func (d *doors) all(token string, want int) bool {
	d.t.Helper()
	for name, open := range d.open {
		got := open(token)
		if got != http.StatusOK && got != http.StatusForbidden {
			d.t.Errorf("%s = %d, want 200 or 403", name, got)
		}
		if got != want {
			return false
		}
	}
	return true
}

// refused waits until every endpoint rejects a token, and returns the duration.
func (d *doors) refused(token string) time.Duration {
	d.t.Helper()
	began := time.Now()
	harness.Within(d.t, harness.Patience, "the token is rejected everywhere", func() bool { return d.all(token, http.StatusForbidden) })
	return time.Since(began)
}

// rawHolder runs a task with tokens and returns them once every endpoint accepts them.
func rawHolder(t *testing.T, s *harness.Servers, cl *cluster.Agent, id string) harness.Holder {
	t.Helper()
	ids := []*api.WorkloadIdentity{{Name: "default", File: true}, {Name: "ours", Audience: []string{"nomadproject.io"}, File: true,
		TTL: time.Hour}}
	h := harness.Holder{Alloc: harness.Register(t, cl, rawTask(id, ids, "/bin/sleep", "600"), "running")}
	h.Secrets = secretsOf(cl, h.Alloc)
	h.Token, h.AWS = harness.Content(t, h.Secrets+"/nomad_token"), harness.Content(t, h.Secrets+"/nomad_ours.jwt")
	return h
}

// The tokens of an allocation that is stopped, purged, or on a node that is down, are rejected by
// every server at every endpoint.
func TestTokensEndEverywhere(t *testing.T) {
	cfg := filepath.Join(harness.TempDir(t), "fast.hcl")
	harness.WriteFile(t, cfg, "server {\n  min_heartbeat_ttl = \"1s\"\n  heartbeat_grace = \"10s\"\n"+
		"  failover_heartbeat_ttl = \"15s\"\n  max_heartbeats_per_second = 1000\n}\n")
	s := harness.StartServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	cl, doomed := rawClient(t, s.All...), rawClient(t, s.All[1])
	t.Cleanup(func() { harness.PurgeAll(t, s.All[0]) })
	alone := func(a, other *cluster.Agent) { // tasks are placed on one of them
		for node, eligible := range map[*cluster.Agent]bool{a: true, other: false} {
			harness.Acknowledged(t, "ToggleEligibility", func() error {
				_, err := s.All[0].Client.Nodes().ToggleEligibility(harness.NodeID(t, node), eligible, nil)
				return err
			})
		}
	}
	alone(cl, doomed)
	whole := t
	d := doorsOf(t, s, rawHolder(t, s, cl, "stays"))
	t.Run("stopped", func(t *testing.T) { stopMany(t, s, cl, d) })
	t.Run("purged", func(t *testing.T) {
		h := rawHolder(t, s, cl, "purged")
		d.admitted(t, h)
		harness.Acknowledged(t, "Deregister", func() error {
			_, _, err := s.All[1].Client.Jobs().Deregister("purged", true, nil)
			return err
		})
		d.refused(h.Token)
		d.refused(h.AWS)
	})
	t.Run("node down", func(t *testing.T) {
		alone(doomed, cl)
		h := rawHolder(t, s, doomed, "lost")
		d.admitted(t, h)
		id := harness.NodeID(t, doomed)
		pids := tasksOf(t, h)
		if err := doomed.Kill(); err != nil {
			t.Fatal(err)
		}
		harness.WaitNodeStatus(t, s.All[0], id, "down")
		d.refused(h.Token)
		d.refused(h.AWS)
		harness.Acknowledged(t, "Deregister", func() error {
			_, _, err := s.All[0].Client.Jobs().Deregister("lost", true, nil)
			return err
		})
		harness.Restart(whole, doomed) // it finds the task, which must stop
		harness.WaitGone(t, pids)
	})
}

// admitted waits until every endpoint accepts the tokens: servers may lag behind.
func (d *doors) admitted(t *testing.T, h harness.Holder) {
	t.Helper()
	for _, token := range []string{h.Token, h.AWS} {
		harness.Within(t, harness.Patience, "a valid token is accepted everywhere", func() bool { return d.all(token, http.StatusOK) })
	}
}

// tasksOf returns the processes of a holder's task.
func tasksOf(t *testing.T, h harness.Holder) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, name := range names {
		if text, _ := os.ReadFile(name); strings.Contains(string(text), "NOMAD_ALLOC_ID="+h.Alloc.ID) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	if len(pids) == 0 {
		t.Fatal("the task has no process")
	}
	return pids
}

// stopMany stops allocations, a few at a time.
func stopMany(t *testing.T, s *harness.Servers, cl *cluster.Agent, d *doors) {
	var holders []harness.Holder
	for i := range tokenStops {
		holders = append(holders, rawHolder(t, s, cl, fmt.Sprintf("stop-%d", i)))
	}
	for _, h := range holders {
		d.admitted(t, h)
	}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i, h := range holders {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			harness.Acknowledged(t, "Deregister", func() error {
				_, _, err := s.All[i%3].Client.Jobs().Deregister(fmt.Sprintf("stop-%d", i), false, nil)
				return err
			})
			d.refused(h.Token)
			d.refused(h.AWS)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began).Round(time.Millisecond))
		})
	}
	all.Wait()
	slices.Sort(took)
	t.Logf("stopped → rejected everywhere: %v", took)
	if len(took) != tokenStops || took[len(took)/2-1] > mostRefused {
		t.Errorf("want half of the tokens rejected everywhere within %v of the stop", mostRefused)
	}
}
