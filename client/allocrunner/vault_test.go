package allocrunner_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// vaultSigner signs identities that Vault accepts.
type vaultSigner struct{ idp *testidp.Provider }

func (s vaultSigner) Call(_ context.Context, _ string, req, resp any) error {
	out := resp.(*message.AllocIdentitiesResponse)
	end := time.Now().Add(time.Hour)
	for _, id := range req.(*message.AllocIdentitiesRequest).Identities {
		jwt := s.idp.Token(map[string]any{"aud": "vault.io", "exp": end.Unix(), "nomad_namespace": "default", "nomad_job_id": "job",
			"nomad_task": id.WorkloadIdentifier, "jti": nomad.NewID()})
		out.SignedIdentities = append(out.SignedIdentities,
			&message.SignedWorkloadIdentity{WorkloadIdentityRequest: *id, JWT: jwt, Expiration: end})
	}
	return nil
}

// vaultWorld is a world whose tasks log in to Vault, with a running agent.
type vaultWorld struct {
	*world
	v       *testvault.Vault
	cluster *vault.Cluster
	endNode func()
}

func newVaultWorld(t *testing.T) *vaultWorld {
	t.Helper()
	w := &vaultWorld{world: newWorld(t), v: testvault.Start(t, testvault.Config{})}
	idp := testidp.New(t)
	w.rpc = vaultSigner{idp}
	key, id := idp.Key()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "RS256", Use: "sig"}}}
	keys := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(rw).Encode(set) // fails only if the client is gone
	}))
	t.Cleanup(keys.Close)
	var err error
	if w.cluster, err = vault.New(vault.Settings{Name: vault.DefaultCluster, Address: w.v.Addr(), AuthPath: "jwt-nomad"}); err != nil {
		t.Fatal(err)
	}
	write := func(path string, data map[string]any) {
		t.Helper()
		if _, err := w.cluster.Client(w.v.Root(), "").Logical().Write(path, data); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/auth/jwt-nomad", map[string]any{"type": "jwt"})
	write("auth/jwt-nomad/config", map[string]any{"jwks_url": keys.URL, "default_role": "nomad-workloads"})
	write("auth/jwt-nomad/role/nomad-workloads", map[string]any{"role_type": "jwt", "bound_audiences": "vault.io",
		"user_claim": "/nomad_job_id", "user_claim_json_pointer": true, "token_type": "service", "token_period": "30m"})
	w.begin()
	t.Cleanup(func() { w.endNode() })
	return w
}

// begin begins to serve the tokens of a new agent.
func (w *vaultWorld) begin() {
	w.vault = vaulttoken.NewNode(vaulttoken.NodeConfig{Cluster: w.cluster, Store: w.db, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	node := w.vault
	go func() { done <- node.Run(ctx) }()
	w.endNode = func() { cancel(); <-done; w.endNode = func() {} }
}

// set sets how Vault serves requests.
func (w *vaultWorld) set(m testvault.Mode) {
	w.t.Helper()
	if err := w.v.Set(m); err != nil {
		w.t.Fatal(err)
	}
}

// stored returns the number of tokens of an allocation in the state of the agent.
func (w *vaultWorld) stored(alloc *nomad.Allocation) int {
	w.t.Helper()
	all, err := w.db.VaultTokens(alloc.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all[alloc.ID])
}

// TestVault checks the token of a task over a restart of the agent, and its end with the allocation: at once, and after Vault
// was down at the end.
func TestVault(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  testvault.Mode // of Vault, while the allocation ends
	}{
		{"Vault answers", testvault.Mode{}},
		{"Vault refuses connections", testvault.Mode{Refuse: true}},
		{"Vault hangs", testvault.Mode{Hang: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newVaultWorld(t)
			task := mockTask("main", lasts("1h"))
			task.Vault = &nomad.Vault{Cluster: vault.DefaultCluster, Env: true, ChangeMode: "restart"}
			task.Identities = []*nomad.WorkloadIdentity{{Name: vaulttoken.Identity, Audience: []string{"vault.io"}, TTL: time.Hour}}
			alloc := allocation(nomad.JobTypeService, task)
			r := w.runner(alloc)
			stop := w.background(r)
			running := func() bool {
				s := r.States()["main"]
				return s.State == nomad.TaskStateRunning && slices.Contains(w.v.Tokens(), w.file(alloc, "main/secrets/vault_token"))
			}
			testpace.Until(t, "the task runs with a token", running)
			first, began := w.file(alloc, "main/secrets/vault_token"), r.States()["main"].StartedAt
			if got := r.VaultTokens(); len(got) != 1 || got[0].Task != "main" {
				t.Errorf("%d statuses of tokens", len(got))
			}

			stop()
			w.endNode()
			w.world = w.agent()
			w.begin()
			w.vault.Leftovers(func(id string) bool { return id == alloc.ID })
			r = restoredVault(w, alloc)
			stop = w.background(r)
			defer stop()
			testpace.Until(t, "the next agent looks the token up", func() bool { return w.v.Calls("GET /v1/auth/token/lookup-self") > 0 && running() })
			if s := r.States()["main"]; !s.StartedAt.Equal(began) || w.file(alloc, "main/secrets/vault_token") != first || len(w.v.Records()) != 1 {
				t.Errorf("after a restart of the agent: %d tokens, events %v", len(w.v.Records()), types(s))
			}

			w.set(tc.end)
			r.Update(stopping(alloc))
			testpace.Until(t, "the allocation ends", func() bool {
				select {
				case <-r.Done():
					return true
				default:
					return false
				}
			})
			if err := r.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			if tc.end != (testvault.Mode{}) && w.stored(alloc) != 1 {
				t.Errorf("%d tokens are stored for their revocation, want 1", w.stored(alloc))
			}
			w.set(testvault.Mode{})
			testpace.Until(t, "the token is revoked", func() bool {
				return w.v.Records()[first].End == testvault.Revoked && w.stored(alloc) == 0
			})
		})
	}
}

// restoredVault returns the runner of an allocation of an earlier agent.
func restoredVault(w *vaultWorld, alloc *nomad.Allocation) *allocrunner.Runner {
	w.t.Helper()
	r := w.runner(alloc)
	if err := r.Restore(); err != nil {
		w.t.Fatal(err)
	}
	return r
}
