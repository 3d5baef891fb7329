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

// Tasks provides the states of the allocation's tasks.
type Tasks interface {
	// States returns the tasks' states by name. They must not be modified.
	States() map[string]*nomad.TaskState
	// Changed receives after a state has changed. It has one receiver.
	Changed() <-chan struct{}
	// SetHealth sets the allocation's health in a deployment.
	SetHealth(deployment string, healthy bool)
}

// Config holds the dependencies of the hooks of one allocation.
type Config struct {
	Alloc      *nomad.Allocation
	AllocDir   string // the client's alloc_dir
	Networks   Networks
	Drivers    Drivers
	Identities Identities
	Tasks      Tasks
	Log        *slog.Logger
}

// Order returns the hooks of an allocation in the order in which they run.
func Order(c Config) []hook.Hook {
	return []hook.Hook{
		&directoryHook{root: c.AllocDir, id: c.Alloc.ID},
		&networkHook{alloc: c.Alloc.ID, networks: c.Networks, drivers: c.Drivers},
		&identitiesHook{ids: c.Identities},
		newHealthHook(c.Tasks, c.Log),
	}
}
