package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	mintFactor   = 1.2
	mintOver     = 15 * time.Microsecond
	verifyWithin = 2 * time.Microsecond
	rounds       = 2000
	roundOf      = 50
	stateAllocs  = 10000
	tokensShown  = 1000
	tokenPayload = 500 // bytes, about the size of a task token
)

// issuer creates an issuer with one key.
func issuer(ctx context.Context) (*identity.Issuer, error) {
	ring := keyring.New(keyring.Config{})
	key, err := ring.NewRootKey(ctx, time.Now())
	if err == nil {
		err = ring.Add(ctx, key)
	}
	return identity.New(identity.Config{Ring: ring, Region: "global", URL: "https://nomad.example"}), err
}

// taskClaims returns the claims of the task of an allocation.
func taskClaims(i *identity.Issuer, alloc *nomad.Allocation) *idtoken.Claims {
	return i.Workload(identity.Subject{
		Alloc:    alloc,
		Job:      alloc.Job,
		Handle:   message.WIHandle{IdentityName: "default", WorkloadIdentifier: "task"},
		Identity: &nomad.WorkloadIdentity{Name: "default", Audience: []string{nomad.IdentityDefaultAud}},
	}, time.Now())
}

// mintCost compares the creation of a token with the signature alone.
func mintCost(ctx context.Context, _ *bench) (string, bool, error) {
	i, err := issuer(ctx)
	if err != nil {
		return "", false, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", false, err
	}
	alloc := stored(0)
	text := make([]byte, tokenPayload)
	token, bare, err := compared(
		func() error {
			_, err := i.Mint(ctx, taskClaims(i, alloc))
			return err
		},
		func() error { ed25519.Sign(key, text); return nil })
	said := fmt.Sprintf("%.1f µs, bare %.1f µs", micros(token), micros(bare))
	return said, float64(token) <= mintFactor*float64(bare)+float64(mintOver), err
}

// verifyCost measures the authentication of cached tokens.
func verifyCost(ctx context.Context, _ *bench) (string, bool, error) {
	i, err := issuer(ctx)
	if err != nil {
		return "", false, err
	}
	store := state.New(slog.New(slog.DiscardHandler))
	var allocs []*nomad.Allocation
	for n := range stateAllocs {
		allocs = append(allocs, stored(n))
	}
	if _, err := store.ApplyPlanResults(10, &message.ApplyPlanResultsRequest{Job: allocs[0].Job, AllocsUpdated: allocs}); err != nil {
		return "", false, err
	}
	a := authz.New(authz.Config{Store: func() *state.Store { return store }, Tokens: i, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	var tokens []string
	for _, alloc := range allocs[:tokensShown] {
		token, err := i.Mint(ctx, taskClaims(i, alloc))
		if err != nil {
			return "", false, err
		}
		tokens = append(tokens, token.Reveal())
	}
	n := 0
	poll := func() error {
		n++
		who, err := a.Authenticate(ctx, tokens[n%len(tokens)], rpc.Token, nil)
		if err == nil && who.Claims == nil {
			err = errors.New("a token names nobody")
		}
		return err
	}
	for range tokens { // fills the cache
		if err := poll(); err != nil {
			return "", false, err
		}
	}
	took, _, err := compared(poll, func() error { return nil })
	return fmt.Sprintf("%.2f µs, of %d tokens in turn, %d allocations in state", micros(took), tokensShown, stateAllocs),
		took <= verifyWithin, err
}

// stored returns an allocation as the state store holds it.
func stored(n int) *nomad.Allocation {
	job := &nomad.Job{
		ID:         "web",
		Name:       "web",
		Namespace:  "default",
		Region:     "global",
		Type:       nomad.JobTypeService,
		TaskGroups: []*nomad.TaskGroup{{Name: "group", Count: stateAllocs}},
	}
	return &nomad.Allocation{
		ID:            nomad.NewID(),
		Name:          fmt.Sprintf("web.group[%d]", n),
		Namespace:     "default",
		JobID:         job.ID,
		Job:           job,
		TaskGroup:     "group",
		NodeID:        nomad.NewID(),
		DesiredStatus: nomad.AllocDesiredStatusRun,
		ClientStatus:  nomad.AllocClientStatusRunning,
	}
}

// compared measures two functions alternately, in many short rounds. Most rounds run undisturbed by
// other work of the machine. It returns a low percentile: only one round in twenty is faster.
func compared(one, other func() error) (a, b time.Duration, err error) {
	var took [2][]time.Duration
	for range rounds {
		for n, do := range []func() error{one, other} {
			began := time.Now()
			for range roundOf {
				if err := do(); err != nil {
					return 0, 0, err
				}
			}
			took[n] = append(took[n], time.Since(began)/roundOf)
		}
	}
	return percentile(took[0], 5), percentile(took[1], 5), nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
