package allocrunner

import (
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Drivers finds a driver by name (driverset.Set).
type Drivers interface {
	Driver(name string) (drivers.Driver, error)
}

// Users holds the uids that are assigned to tasks without a user (driverset.Users).
type Users interface {
	Assign(owner string) (int, error)
	Claim(uid int, owner string) error
	Release(owner string)
}

// Store keeps the state that survives a restart of the agent (state.DB).
type Store interface {
	Identities(allocID string) ([]*message.SignedWorkloadIdentity, error)
	PutIdentities(allocID string, ids []*message.SignedWorkloadIdentity) error
	PutTask(allocID, task string, t state.Task) error
	PutTaskLater(allocID, task string, t state.Task) error
	PutTaskWithNext(allocID, task string, t state.Task) error
	Tasks(allocID string) (map[string]state.Task, error)
	PutDeployStatus(allocID string, s *nomad.AllocDeploymentStatus) error
	DeployStatus(allocID string) (*nomad.AllocDeploymentStatus, error)
	DeleteAlloc(id string) error
}

// Config configures a Runner. The client itself stores Alloc (state.DB.PutAlloc or a variant).
type Config struct {
	Alloc      *nomad.Allocation
	Node       *nomad.Node
	Region     string
	Store      Store
	Drivers    Drivers
	Users      Users
	RPC        message.Caller
	AllocHooks allochook.Deps
	TaskHooks  taskhook.Deps
	// Update is called with the fields that Node.UpdateAlloc sends, after each change of the
	// allocation's state. It must not block.
	Update func(*nomad.Allocation)
	// MaxKillTimeout limits kill_timeout; 0 means 30 s.
	MaxKillTimeout time.Duration
	MHzPerCore     uint64
	Log            *slog.Logger
}
