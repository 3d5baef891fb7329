package allocrunner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// signer signs identities with a TTL of one minute.
type signer struct {
	mu    sync.Mutex
	calls int
}

func (s *signer) Call(_ context.Context, method string, req, resp any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, id := range req.(*message.AllocIdentitiesRequest).Identities {
		out := resp.(*message.AllocIdentitiesResponse)
		out.SignedIdentities = append(out.SignedIdentities, &message.SignedWorkloadIdentity{
			WorkloadIdentityRequest: *id, JWT: fmt.Sprintf("%s.%d", id.IdentityName, s.calls),
			Expiration: time.Now().Add(time.Minute),
		})
	}
	return nil
}

// renewedOnce waits, in synctest time, until tokens with a TTL of one minute were renewed. The
// first renewal is at a random time in their first half.
func (s *signer) renewedOnce() {
	calls := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls
	}
	for waited := 0; calls() < 2 && waited < 60; waited++ {
		time.Sleep(time.Second)
	}
	time.Sleep(20 * time.Second)
	synctest.Wait()
}

// file reads a file of a task.
func (w *world) file(alloc *nomad.Allocation, parts ...string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{w.dir, "alloc", alloc.ID}, parts...)...))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestIdentityFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		servers := &signer{}
		w.rpc = servers
		task := mockTask("main", lasts("200s"))
		task.Identity.File = true
		task.Identities = []*nomad.WorkloadIdentity{
			{Name: "aws", File: true, TTL: time.Minute},
			{Name: "gcp", File: true, Filepath: "local/deep/gcp.jwt", TTL: time.Minute},
			{Name: "abs", File: true, Filepath: "${NOMAD_SECRETS_DIR}/abs.jwt", TTL: time.Minute},
		}
		alloc := allocation(nomad.JobTypeBatch, task)
		alloc.SignedIdentities = map[string]string{"main": "default.1"}
		r, _, ended := w.started(alloc)
		for path, want := range map[string]string{
			"main/secrets/nomad_token": "default.1", "main/secrets/nomad_aws.jwt": "aws.1",
			"main/local/deep/gcp.jwt": "gcp.1", "main/secrets/abs.jwt": "abs.1",
		} {
			if got := w.file(alloc, path); got != want {
				t.Errorf("%s = %q, want %q", path, got, want)
			}
			info, err := os.Stat(filepath.Join(w.dir, "alloc", alloc.ID, path))
			if err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, want 0600", path, info.Mode())
			}
		}
		servers.renewedOnce()
		if got := w.file(alloc, "main/secrets/nomad_aws.jwt"); got != "aws.2" {
			t.Errorf("renewed file = %q, want aws.2", got)
		}
		if got := w.file(alloc, "main/secrets/nomad_token"); got != "default.1" {
			t.Errorf("default token = %q, want it unchanged", got)
		}
		if s := r.States()["main"]; s.Restarts != 0 || hasEvent(s, nomad.TaskSignaling) {
			t.Errorf("restarts %d, events %v; want no action without a change mode", s.Restarts, types(s))
		}
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

func TestIdentityOutsideTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rpc = &signer{}
		task := mockTask("main", lasts("1s"))
		task.Identities = []*nomad.WorkloadIdentity{{Name: "aws", File: true, Filepath: "../../../escaped", TTL: time.Minute}}
		got := w.run(allocation(nomad.JobTypeBatch, task))
		if got.ClientStatus != nomad.AllocClientStatusFailed || !hasEvent(got.TaskStates["main"], nomad.TaskSetupFailure) {
			t.Errorf("status %q, events %v; want a setup failure", got.ClientStatus, types(got.TaskStates["main"]))
		}
		if _, err := os.Stat(filepath.Join(w.dir, "escaped")); err == nil {
			t.Error("the token was written outside")
		}
	})
}

func TestChangeModes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		identity nomad.WorkloadIdentity
		config   map[string]any
		event    string
		restarts uint64
		running  bool
	}{
		{"noop", nomad.WorkloadIdentity{ChangeMode: "noop"}, nil, "", 0, true},
		{"restart", nomad.WorkloadIdentity{ChangeMode: "restart", Env: true}, nil, nomad.TaskRestartSignal, 1, true},
		{"signal", nomad.WorkloadIdentity{ChangeMode: "signal", ChangeSignal: "SIGHUP"}, nil, nomad.TaskSignaling, 0, true},
		{"signal fails", nomad.WorkloadIdentity{ChangeMode: "signal", ChangeSignal: "SIGHUP"},
			map[string]any{"signal_error": "no"}, nomad.TaskKilled, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				servers := &signer{}
				w.rpc = servers
				config := map[string]any{"run_for": "200s"}
				for k, v := range tc.config {
					config[k] = v
				}
				task := mockTask("main", config)
				tc.identity.Name, tc.identity.File, tc.identity.TTL = "aws", true, time.Minute
				task.Identities = []*nomad.WorkloadIdentity{&tc.identity}
				alloc := allocation(nomad.JobTypeBatch, task)
				r, _, ended := w.started(alloc)
				if s := r.States()["main"]; len(s.Events) != 3 {
					t.Errorf("events at first = %v, want no change for the first token", types(s))
				}
				servers.renewedOnce()
				s := r.States()["main"]
				if tc.event != "" && !slices.Contains(types(s), tc.event) {
					t.Errorf("events = %v, want %q", types(s), tc.event)
				}
				if s.Restarts != tc.restarts || (s.State == nomad.TaskStateRunning) != tc.running {
					t.Errorf("restarts %d, state %s", s.Restarts, s.State)
				}
				if !tc.running && !s.Failed {
					t.Error("the task was killed but is not failed")
				}
				if got := w.file(alloc, "main/secrets/nomad_aws.jwt"); tc.running && got != "aws.2" {
					t.Errorf("file = %q, want aws.2", got)
				}
				if err := r.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
				<-ended
			})
		})
	}
}

// A token renewed before the process starts is not a change.
func TestRenewedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rpc = &signer{}
		task := mockTask("main", map[string]any{"run_for": "20s", "start_block_for": "90s"})
		task.Identities = []*nomad.WorkloadIdentity{{Name: "aws", File: true, TTL: time.Minute, ChangeMode: "signal", ChangeSignal: "SIGHUP"}}
		got := w.run(allocation(nomad.JobTypeBatch, task))
		if got.ClientStatus != nomad.AllocClientStatusComplete {
			t.Errorf("status %q, events %v", got.ClientStatus, types(got.TaskStates["main"]))
		}
	})
}

// rejecting signs no identity.
type rejecting struct{}

func (rejecting) Call(_ context.Context, _ string, req, resp any) error {
	out := resp.(*message.AllocIdentitiesResponse)
	for _, id := range req.(*message.AllocIdentitiesRequest).Identities {
		out.Rejections = append(out.Rejections, &message.WorkloadIdentityRejection{
			WorkloadIdentityRequest: *id, Reason: message.WIRejectionReasonMissingIdentity})
	}
	return nil
}
