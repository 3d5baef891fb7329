package authz_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// BenchmarkAuthenticate measures the authentication of a cached task token, including the check of
// its allocation.
func BenchmarkAuthenticate(b *testing.B) {
	a, tokens := busy(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := a.Authenticate(b.Context(), tokens[n%len(tokens)], rpc.Token, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// busy returns an authority over many allocations, and tokens of some of them.
func busy(tb testing.TB) (*authz.Authority, []string) {
	tb.Helper()
	ring := keyring.New(keyring.Config{})
	key, err := ring.NewRootKey(tb.Context(), time.Now())
	if err == nil {
		err = ring.Add(tb.Context(), key)
	}
	if err != nil {
		tb.Fatal(err)
	}
	i := identity.New(identity.Config{Ring: ring, Region: "global"})
	job := &nomad.Job{ID: "web", Namespace: "default", Type: nomad.JobTypeService, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 10000}}}
	var allocs []*nomad.Allocation
	for range 10000 {
		allocs = append(allocs, &nomad.Allocation{ID: nomad.NewID(), Namespace: "default", JobID: job.ID, Job: job, TaskGroup: "g",
			NodeID:        nomad.NewID(),
			DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning})
	}
	store := state.New(slog.New(slog.DiscardHandler))
	if _, err := store.ApplyPlanResults(10, &message.ApplyPlanResultsRequest{Job: job, AllocsUpdated: allocs}); err != nil {
		tb.Fatal(err)
	}
	var tokens []string
	for _, alloc := range allocs[:1000] {
		token, err := i.Mint(tb.Context(), i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "t"},
			Identity: &nomad.WorkloadIdentity{Name: "default", Audience: []string{nomad.IdentityDefaultAud}}}, time.Now()))
		if err != nil {
			tb.Fatal(err)
		}
		tokens = append(tokens, token.Reveal())
	}
	a := authz.New(authz.Config{Store: func() *state.Store { return store }, Tokens: i, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for _, token := range tokens { // fills the cache
		if _, err := a.Authenticate(tb.Context(), token, rpc.Token, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return a, tokens
}
