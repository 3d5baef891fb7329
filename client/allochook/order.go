package allochook

import (
	"context"
	"log/slog"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// Identities fetches and renews the tokens of the allocation (identity.Manager).
type Identities interface {
	Prepare(ctx context.Context) error
	Run(ctx context.Context) error
}

// Tasks tells how the allocation's tasks are.
type Tasks interface {
	// States are the tasks' states by name; they are not to be written to.
	States() map[string]*nomad.TaskState
	// Changed receives after a state changed. There is one receiver.
	Changed() <-chan struct{}
	// SetHealth takes the verdict on the allocation in a deployment.
	SetHealth(deployment string, healthy bool)
}

// Config is what the hooks of one allocation work with.
type Config struct {
	Alloc      *nomad.Allocation
	AllocDir   string // the client's alloc_dir
	Networks   Networks
	Drivers    Drivers
	Identities Identities
	Tasks      Tasks
	Log        *slog.Logger
}

// Order returns the hooks of an allocation in the order in which they act.
func Order(c Config) []hook.Hook {
	return []hook.Hook{
		&directoryHook{root: c.AllocDir, id: c.Alloc.ID},
		&networkHook{alloc: c.Alloc.ID, networks: c.Networks, drivers: c.Drivers},
		&identitiesHook{ids: c.Identities},
		newHealthHook(c.Tasks, c.Log),
	}
}
