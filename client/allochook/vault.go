package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
)

// vaultHook logs the tasks of the allocation in to Vault, and revokes their tokens at its end. It does not wait for a login: a
// task waits for its token.
type vaultHook struct{ tokens *vaulttoken.Manager }

func newVaultHook(c Config) hook.Hook { return &vaultHook{c.VaultTokens} }

func (*vaultHook) Name() string { return "vault" }

func (h *vaultHook) Prerun(_ context.Context, _ *PrerunRequest, resp *PrerunResponse) error {
	if h.tokens.Prepare() {
		resp.Background = h.run
	}
	return nil
}

// Update passes on the newer version of the allocation.
func (h *vaultHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	if h.tokens.Update(req.Alloc) {
		resp.Background = h.run
	}
	return nil
}

func (h *vaultHook) run(ctx context.Context) {
	_ = h.tokens.Run(ctx) // ends with ctx
}

// Postrun revokes all tokens. It waits for one second at most.
func (h *vaultHook) Postrun(ctx context.Context) error {
	h.tokens.End(ctx)
	return nil
}

// Destroy revokes what Postrun could not read.
func (h *vaultHook) Destroy(ctx context.Context) error { return h.Postrun(ctx) }
