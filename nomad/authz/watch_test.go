package authz_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Only changes that affect the caller end the wait.
func TestWatch(t *testing.T) {
	token := &rbac.Token{AccessorID: unknown, SecretID: secret, Type: rbac.ClientToken, Policies: []string{"p"}}
	task := workload("a", "default")
	callers := map[string]*rbac.AuthenticatedIdentity{
		"token": {ACLToken: token}, "task": {Claims: task}, "node": {ClientID: node},
	}
	for name, c := range map[string]struct {
		change func(s *state.Store) error
		wakes  []string
	}{
		"policy": {func(s *state.Store) error {
			_, err := s.UpsertACLPolicies(20, &message.ACLPolicyUpsertRequest{
				Policies: []*rbac.Policy{{Name: "p", Rules: `node { policy = "read" }`}}})
			return err
		}, []string{"token", "task", "node"}},
		"token": {func(s *state.Store) error {
			_, err := s.DeleteACLTokens(20, &message.ACLTokenDeleteRequest{AccessorIDs: []string{unknown}})
			return err
		}, []string{"token"}},
		"node": {func(s *state.Store) error {
			_, err := s.RegisterNode(20, &message.NodeRegisterRequest{Node: &nomad.Node{ID: node, SecretID: secret, Status: nomad.NodeStatusDown}})
			return err
		}, []string{"node"}},
		"allocation": {func(s *state.Store) error {
			_, err := s.UpdateAllocsFromClient(20, &message.AllocUpdateRequest{
				Alloc: []*nomad.Allocation{{ID: "a", ClientStatus: nomad.AllocClientStatusComplete}}})
			return err
		}, []string{"task"}},
		"another node": {func(s *state.Store) error {
			_, err := s.RegisterNode(20, &message.NodeRegisterRequest{Node: &nomad.Node{ID: secret, SecretID: node}})
			return err
		}, nil},
		"restore": {func(s *state.Store) error { s.Abandon(); return nil }, []string{"token", "task", "node"}},
	} {
		for who, id := range callers {
			synctest.Test(t, func(t *testing.T) {
				store := state.New(slog.New(slog.DiscardHandler))
				a := authz.New(authz.Config{Enforce: true, Store: func() *state.Store { return store }, Now: time.Now})
				if _, err := store.UpsertACLTokens(10, &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{token}}); err != nil {
					t.Fatal(err)
				}
				if _, err := store.RegisterNode(11, &message.NodeRegisterRequest{Node: &nomad.Node{ID: node, SecretID: secret}}); err != nil {
					t.Fatal(err)
				}
				place(t, store)
				ctx, cancel := context.WithCancel(t.Context())
				woken := make(chan struct{})
				wait := a.Watch(id)
				go func() {
					defer close(woken)
					wait(ctx)
				}()
				if err := c.change(store); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				got, want := false, false
				select {
				case <-woken:
					got = true
				default:
				}
				for _, w := range c.wakes {
					want = want || w == who
				}
				if got != want {
					t.Errorf("a change of %s wakes the wait of a %s: %t, want %t", name, who, got, want)
				}
				cancel()
				<-woken
			})
		}
	}
}

// place stores the allocation "a".
func place(t *testing.T, store *state.Store) {
	t.Helper()
	job := &nomad.Job{ID: "j", Namespace: "default", Type: nomad.JobTypeBatch, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1}}}
	if _, err := store.RegisterJob(12, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	alloc := &nomad.Allocation{ID: "a", Namespace: "default", JobID: "j", Job: job, TaskGroup: "g", NodeID: node,
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending}
	plan := &message.ApplyPlanResultsRequest{Job: job, AllocsUpdated: []*nomad.Allocation{alloc}}
	if _, err := store.ApplyPlanResults(13, plan); err != nil {
		t.Fatal(err)
	}
}

// The wait ends when the credential expires.
func TestWatchEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New(slog.New(slog.DiscardHandler))
		a := authz.New(authz.Config{Enforce: true, Store: func() *state.Store { return store }, Now: time.Now})
		for name, until := range map[string]func(time.Time) *rbac.AuthenticatedIdentity{
			"token": func(end time.Time) *rbac.AuthenticatedIdentity {
				return &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: unknown, ExpirationTime: &end}}
			},
			"task": func(end time.Time) *rbac.AuthenticatedIdentity {
				claims := workload("a", "default")
				claims.Expiry = end.Unix()
				return &rbac.AuthenticatedIdentity{Claims: claims}
			},
		} {
			begun := time.Now()
			id := until(begun.Add(time.Hour))
			a.Watch(id)(t.Context())
			if took := time.Since(begun); took != time.Hour {
				t.Errorf("%s: the wait took %v, want an hour", name, took)
			}
			if a.Watch(id) != nil {
				t.Errorf("%s: a wait for an expired credential", name)
			}
		}
	})
}
