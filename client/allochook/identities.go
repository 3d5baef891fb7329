package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
)

// identitiesHook fetches the tokens of the tasks before they start and renews them while they
// run.
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
