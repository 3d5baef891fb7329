package allocrunner

import (
	"context"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Drivers finds a driver by name (driverset.Set).
type Drivers interface {
	Driver(name string) (drivers.Driver, error)
}

// Users assigns uids to tasks without a user (driverset.Users).
type Users interface {
	Lend(owner string) (int, error)
	Claim(uid int, owner string) error
	Contains(uid int) bool
	Release(owner string)
}

// Store keeps the state that survives a restart of the agent (state.DB).
type Store interface {
	Identities(allocID string) ([]*nomad.SignedWorkloadIdentity, error)
	PutIdentities(allocID string, ids []*nomad.SignedWorkloadIdentity) error
	PutTask(allocID, task string, t state.Task) error
	PutTaskLater(allocID, task string, t state.Task) error
	PutTaskWithNext(allocID, task string, t state.Task) error
	Tasks(allocID string) (map[string]state.Task, error)
	PutDeployStatus(allocID string, s *nomad.AllocDeploymentStatus) error
	DeployStatus(allocID string) (*nomad.AllocDeploymentStatus, error)
	DeleteAlloc(id string) error
}

// Caller reaches the servers; it adds the node's own token to each request.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config configures a Runner. The client itself stores Alloc (state.DB.PutAlloc or a variant).
type Config struct {
	Alloc    *nomad.Allocation
	Node     *nomad.Node
	Region   string
	AllocDir string // the client's alloc_dir
	Store    Store
	Drivers  Drivers
	Users    Users
	// Networks holds the network namespaces of allocations.
	Networks allochook.Networks
	RPC      Caller
	// API serves the task sockets. It requires a token on each request. Nil disables the
	// sockets.
	API *taskhook.API
	// Update is called with the fields that Node.UpdateAlloc sends, after each change of the
	// allocation's state. It must not block.
	Update func(*nomad.Allocation)
	// HostEnv is the agent's environment without the denylist, for raw_exec.
	HostEnv map[string]string
	// MaxKillTimeout limits kill_timeout; 0 means 30 s.
	MaxKillTimeout time.Duration
	// StatsInterval is the sampling interval of resource usage; 0 means 1 s.
	StatsInterval time.Duration
	MHzPerCore    uint64
	Metrics       taskhook.Metrics
	Log           *slog.Logger
}
