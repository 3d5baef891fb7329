package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	authorizeWithin = 5 * time.Microsecond
	policiesHeld    = 5      // of each token
	tokensStored    = 10_000 // in addition to the caller's
	listedVariables = 10_000
	listWithin      = 50 * time.Millisecond
	lists           = 15
)

// authorizeCost measures the authorization of a request with a cached token: identity, rights and
// one check.
func authorizeCost(ctx context.Context, _ *bench) (string, bool, error) {
	store := state.New(slog.New(slog.DiscardHandler))
	var names []string
	var policies []*rbac.Policy
	for i := range policiesHeld {
		names = append(names, fmt.Sprintf("p%d", i))
		policies = append(policies, &rbac.Policy{
			Name:  names[i],
			Rules: fmt.Sprintf("namespace \"team-%d-*\" { policy = \"write\" }\nnamespace \"prod\" { policy = \"read\" }", i),
		})
	}
	var tokens []*rbac.Token
	for range tokensStored {
		tokens = append(tokens, &rbac.Token{AccessorID: nomad.NewID(), SecretID: nomad.NewID(), Type: rbac.ClientToken, Policies: names})
	}
	_, err := store.UpsertACLPolicies(10, &message.ACLPolicyUpsertRequest{Policies: policies})
	if err == nil {
		_, err = store.UpsertACLTokens(11, &message.ACLTokenUpsertRequest{Tokens: tokens})
	}
	if err != nil {
		return "", false, err
	}
	a := authz.New(authz.Config{Enforce: true, Store: func() *state.Store { return store }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	ask := func() error {
		who, err := a.Authenticate(ctx, tokens[0].SecretID, rpc.Token, nil)
		if err != nil {
			return err
		}
		access, err := a.Access(ctx, who)
		if err == nil && !access.Allows(acl.InNamespace("prod", acl.ReadJob)) {
			err = errors.New("the token lacks its right")
		}
		return err
	}
	if err := ask(); err != nil { // fills the cache
		return "", false, err
	}
	took, _, err := compared(ask, func() error { return nil })
	return fmt.Sprintf("%.2f µs, %d policies, %d tokens in state", micros(took), policiesHeld, tokensStored), took <= authorizeWithin, err
}

// listVariables lists many variables by prefix over HTTP, on an agent with ACLs. The policy of the
// token permits the list.
func listVariables(ctx context.Context, b *bench) (string, bool, error) {
	dir, err := os.MkdirTemp(b.dir, "variables-")
	if err != nil {
		return "", false, err
	}
	cfg := filepath.Join(dir, "acl.hcl")
	if err := os.WriteFile(cfg, []byte("acl {\n  enabled = true\n}\n"), 0o600); err != nil {
		return "", false, err
	}
	a, err := cluster.Start(ctx, cluster.Options{Bin: b.nomad, Dir: dir, Secret: nomad.NewID(),
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	reader, err := fillVariables(a)
	if err != nil {
		return "", false, err
	}
	var took, read []time.Duration
	for range lists {
		began := time.Now()
		answer, err := reader.Raw().Response("/v1/vars?prefix=bench%2F", nil)
		if err != nil {
			return "", false, err
		}
		text, err := io.ReadAll(answer)
		answer.Close()
		took = append(took, time.Since(began))
		var found []*api.VariableMetadata
		if err := errors.Join(err, json.Unmarshal(text, &found)); err != nil || len(found) != listedVariables {
			return "", false, fmt.Errorf("%d variables are listed: %w", len(found), err)
		}
		read = append(read, time.Since(began))
	}
	m := median(took)
	return fmt.Sprintf("%d ms to the last byte, %d ms until they are decoded (medians of %d)", m.Milliseconds(),
		median(read).Milliseconds(), lists), m <= listWithin, nil
}

// fillVariables writes the variables and returns a client that may list only them.
func fillVariables(a *cluster.Agent) (*api.Client, error) {
	for i := range listedVariables {
		for _, path := range []string{fmt.Sprintf("bench/%05d", i), fmt.Sprintf("hidden/%05d", i)}[:1+(i%20)/19] {
			if _, _, err := a.Client.Variables().Create(&api.Variable{Path: path, Items: api.VariableItems{"k": "v"}}, nil); err != nil {
				return nil, err
			}
		}
	}
	rules := `namespace "default" { variables { path "bench/*" { capabilities = ["list"] } } }`
	if _, err := a.Client.ACLPolicies().Upsert(&api.ACLPolicy{Name: "lister", Rules: rules}, nil); err != nil {
		return nil, err
	}
	token, _, err := a.Client.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{"lister"}}, nil)
	if err != nil {
		return nil, err
	}
	return api.NewClient(&api.Config{Address: a.Address(), SecretID: token.SecretID})
}
