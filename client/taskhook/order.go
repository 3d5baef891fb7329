package taskhook

import (
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Identities holds the tokens of the allocation (identity.Manager).
type Identities interface {
	Default(task string) nomad.Token
	Watch(h nomad.WIHandle) (<-chan nomad.Token, func())
}

// Users assigns uids to tasks without a user (driverset.Users).
type Users interface {
	Lend(owner string) (int, error)
	Claim(uid int, owner string) error
	Contains(uid int) bool
}

// Config holds the dependencies of the hooks of one task.
type Config struct {
	Alloc        *nomad.Allocation
	Task         *nomad.Task
	Node         *nomad.Node
	Dir          *allocdir.Dir
	Capabilities drivers.Capabilities
	Identities   Identities
	Users        Users
	API          *API              // of the task's socket, nil for none
	HostEnv      map[string]string // for drivers without isolation
	Control      Control
	Usage        func(*nomad.TaskResourceUsage) // receives each sample
	StatsEvery   time.Duration
	Metrics      Metrics
	Log          *slog.Logger
}

// Order returns the hooks of a task in the order in which they run.
func Order(c Config) []hook.Hook {
	c.Log = c.Log.With("alloc", c.Alloc.ID, "task", c.Task.Name)
	return []hook.Hook{
		&validateHook{},
		&userHook{users: c.Users, dynamic: c.Capabilities.DynamicWorkloadUsers},
		&directoryHook{alloc: c.Dir, task: c.Task.Name, isolation: c.Capabilities.FSIsolation, control: c.Control},
		&environmentHook{host: c.HostEnv, isolation: c.Capabilities.FSIsolation},
		&identityHook{ids: c.Identities, control: c.Control, log: c.Log},
		&socketHook{api: c.API, key: c.Alloc.ID + "/" + c.Task.Name, log: c.Log},
		&dnsHook{mounts: c.Capabilities.Mounts},
		&volumeHook{node: c.Node, alloc: c.Dir, mounts: c.Capabilities.Mounts},
		&logsHook{none: c.Capabilities.NoLogs},
		&dispatchHook{},
		&statsHook{every: c.StatsEvery, usage: c.Usage, metrics: newTaskMetrics(c), log: c.Log},
	}
}
