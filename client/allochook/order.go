package allochook

import (
	"context"
	"log/slog"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/nomad"
)

// Identities fetches and renews the tokens of the allocation (identity.Manager).
type Identities interface {
	Prepare(ctx context.Context) error
	// Update takes the identities of a newer version, and reports whether Run has to run for them.
	Update(a *nomad.Allocation) (missing bool)
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
	// Emit adds an event to a task that has started to run.
	Emit(task string, e *nomad.TaskEvent)
	// RestartUnhealthy restarts one task or, if task is empty, all running ones, as after a failure.
	RestartUnhealthy(ctx context.Context, task, reason string) error
	// Expire ends all tasks because the allocation exceeded max_run_duration.
	Expire()
}

// Deps holds the dependencies that all allocations of the node share. Package client sets them.
type Deps struct {
	AllocDir string   // the client's alloc_dir
	Networks Networks // the network namespaces of allocations, nil for none
	Drivers  Drivers
	Tokens   *token.Node        // nil: no Consul
	Vault    *vaulttoken.Node   // nil: no Vault
	Services *service.Registrar // nil: native services are not enabled
	Consul   consul.Reconciler  // nil: the node has no Consul
	Checks   *check.Set         // nil: no checks
	// Connections connects the namespaces with the networks of the node; nil for modes host and none
	// only.
	Connections Connections
	Users       Users
	Peers       Peers         // nil if allocations do not depend on each other
	Mesh        *connect.Node // nil: the node has no Consul
	CSI         CSIVolumes    // nil: the node mounts no CSI volumes
}

// Config is the input of a hook's constructor: the dependencies and the allocation.
type Config struct {
	Deps
	Alloc       *nomad.Allocation
	Node        *nomad.Node
	Region      string
	Identities  Identities
	Tokens      *token.Manager // of Consul
	VaultTokens *vaulttoken.Manager
	Tasks       Tasks
	Start       Start
	Log         *slog.Logger
}

// Order returns the hooks of an allocation in the order in which they run.
func Order(c Config) []hook.Hook {
	previous, checks := newPreviousHook(c), newChecksHook(c)
	return []hook.Hook{
		newDirectoryHook(c),
		previous,
		newDiskHook(c, previous),
		newCSIHook(c),
		newMaxRunHook(c),
		newNetworkHook(c),
		newIdentitiesHook(c),
		newConsulHook(c),
		newVaultHook(c),
		observeHook{checks},
		newGroupServiceHook(c),
		newConsulEndHook(c),
		newConsulGRPCHook(c),
		newConsulHTTPHook(c),
		checks,
		newHealthHook(c),
	}
}
