package template

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
)

// Config is the template block of the client's configuration.
type Config struct {
	// FunctionDenylist holds patterns of functions that templates must not call, in addition to those that
	// are always refused.
	FunctionDenylist []string
	// DisableFileSandbox lets source and the function file read everything that the task's user can
	// read. Destinations stay inside the allocation's directory.
	DisableFileSandbox bool
	MaxStale           time.Duration
	BlockQueryWait     time.Duration // 0 is 5 minutes
	Wait               render.Wait
	// WaitBounds limits the wait of jobs: at least Min, at most Max; 0 sets no limit.
	WaitBounds render.Wait
	NomadRetry render.Retry
	// ConsulRetry is for reads of Consul.
	ConsulRetry render.Retry
	// VaultRetry is for requests to Vault.
	VaultRetry render.Retry
	// VaultDefaultLease is the time after which secrets without a lease are read again; 0 is 5 minutes.
	VaultDefaultLease time.Duration
	// UseClientConsulToken makes all templates read Consul with the token of the agent.
	UseClientConsulToken bool
}

// defaultVaultLease is the default of VaultDefaultLease.
const defaultVaultLease = 5 * time.Minute

// defaultBlockQueryWait is the default duration of a blocking query.
const defaultBlockQueryWait = 5 * time.Minute

func (c *Config) vaultDefaultLease() time.Duration {
	return cmp.Or(c.VaultDefaultLease, defaultVaultLease)
}

func (c *Config) blockQueryWait() time.Duration {
	return cmp.Or(c.BlockQueryWait, defaultBlockQueryWait)
}

// wait returns the wait of a template: its own, else that of the client. Both values are then moved into the bounds, so
// that a max below the lowest wait of the client is raised to it.
func (c *Config) wait(w *nomad.WaitConfig) render.Wait {
	out := c.Wait
	if w != nil && w.Min != nil {
		out.Min = *w.Min
	}
	if w != nil && w.Max != nil {
		out.Max = *w.Max
	}
	if bound := c.WaitBounds.Min; bound > 0 {
		out.Min, out.Max = max(out.Min, bound), max(out.Max, bound)
	}
	if bound := c.WaitBounds.Max; bound > 0 {
		out.Min, out.Max = min(out.Min, bound), min(out.Max, bound)
	}
	return out
}
