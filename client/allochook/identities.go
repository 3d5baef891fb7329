package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
)

// identitiesHook fetches the tokens of the tasks before they start, and those of services of Consul. It renews them while the
// tasks run.
type identitiesHook struct{ ids Identities }

func newIdentitiesHook(c Config) hook.Hook {
	return &identitiesHook{ids: c.Identities}
}

func (*identitiesHook) Name() string { return "identities" }

func (h *identitiesHook) Prerun(ctx context.Context, _ *PrerunRequest, resp *PrerunResponse) error {
	if err := h.ids.Prepare(ctx); err != nil {
		return err
	}
	resp.Background = func(ctx context.Context) {
		_ = h.ids.Run(ctx) // ends with ctx, or when no token needs renewal
	}
	return nil
}

// Update fetches the tokens of services that the new version adds.
func (h *identitiesHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	if h.ids.Update(req.Alloc) {
		resp.Background = func(ctx context.Context) {
			_ = h.ids.Run(ctx) // as in Prerun
		}
	}
	return nil
}
