package allocrunner_test

import (
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// world is the environment of an allocation: everything is real except the servers.
type world struct {
	t       testing.TB
	dir     string
	db      *state.DB
	set     *driverset.Set
	users   *driverset.Users
	updates *updates
	rpc     message.Caller
	api     *taskhook.API
	nets    allochook.Networks
	connect allochook.Connections
	driver  func(*mock.Driver) drivers.Driver // wraps the mock driver, may be nil
	reg     *service.Registrar                // nil for no native services
	consul  consul.Reconciler                 // nil for no Consul
	checks  *check.Set
	mesh    *connect.Node // nil for no Consul
	vault   *vaulttoken.Node
	csi     allochook.CSIVolumes // nil for none
	peers   allochook.Peers
}

// updates holds the last status sent to the servers.
type updates struct {
	mu   sync.Mutex
	last *nomad.Allocation
}

func (u *updates) put(a *nomad.Allocation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = a
}

func (u *updates) alloc() *nomad.Allocation {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	db, err := state.Open(state.Config{Dir: dir + "/client", NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return (&world{t: t, dir: dir, db: db, updates: &updates{}}).agent()
}

// agent returns a new agent on the same disk, with new drivers.
func (w *world) agent() *world {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var driver drivers.Driver = mock.New(mock.Name, log)
	if w.driver != nil {
		driver = w.driver(mock.New(mock.Name, log))
	}
	set, err := driverset.New(driverset.Config{Drivers: []drivers.Driver{driver}, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	users, err := driverset.NewUsers(80000, 80999)
	if err != nil {
		w.t.Fatal(err)
	}
	next := *w
	next.set, next.users = set, users
	return &next
}

func (w *world) taskHooks() taskhook.Deps {
	d := taskhook.Deps{Users: w.users, API: w.api, HostEnv: map[string]string{"HOST_VAR": "x"}, Services: w.reg, Consul: w.consul,
		Mesh: w.mesh}
	if w.checks != nil {
		d.Checks = w.checks
	}
	return d
}

func (w *world) runner(alloc *nomad.Allocation) *allocrunner.Runner {
	w.t.Helper()
	r, err := allocrunner.New(allocrunner.Config{
		Alloc: alloc, Node: &nomad.Node{ID: nomad.NewID(), Name: "n1", Datacenter: "dc1"}, Region: "global",
		Store: w.db, Drivers: w.set, Users: w.users, RPC: w.rpc,
		AllocHooks: allochook.Deps{AllocDir: w.dir + "/alloc", Networks: w.nets, Connections: w.connect, Drivers: w.set, Services: w.reg, Consul: w.consul,
			Checks: w.checks, Mesh: w.mesh, Vault: w.vault, CSI: w.csi, Peers: w.peers},
		TaskHooks: w.taskHooks(),
		Update:    w.updates.put, MHzPerCore: 2000, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run runs the allocation to its end and returns the last status sent to the servers.
func (w *world) run(alloc *nomad.Allocation) *nomad.Allocation {
	w.t.Helper()
	r := w.runner(alloc)
	if err := r.Run(w.t.Context()); err != nil {
		w.t.Fatalf("Run() = %v", err)
	}
	if err := r.Destroy(w.t.Context()); err != nil {
		w.t.Errorf("Destroy() = %v", err)
	}
	return w.updates.alloc()
}

// mockTask returns a task of the mock driver.
func mockTask(name string, config map[string]any) *nomad.Task {
	return &nomad.Task{
		Name: name, Driver: mock.Name, Config: config, KillTimeout: time.Second,
		Identity: &nomad.WorkloadIdentity{Name: "default"},
		RestartPolicy: &nomad.RestartPolicy{
			Attempts: 0, Interval: time.Minute, Delay: time.Second, Mode: nomad.RestartPolicyModeFail,
		},
	}
}

func during(t *nomad.Task, hook string, sidecar bool) *nomad.Task {
	t.Lifecycle = &nomad.TaskLifecycleConfig{Hook: hook, Sidecar: sidecar}
	return t
}

func allocation(jobType string, tasks ...*nomad.Task) *nomad.Allocation {
	id := nomad.NewID()
	resources := map[string]*nomad.AllocatedTaskResources{}
	for _, t := range tasks {
		resources[t.Name] = &nomad.AllocatedTaskResources{}
	}
	return &nomad.Allocation{
		ID: id, Namespace: "default", Name: "job.group[0]", JobID: "job", TaskGroup: "group",
		DesiredStatus:      nomad.AllocDesiredStatusRun,
		ClientStatus:       nomad.AllocClientStatusPending,
		AllocatedResources: &nomad.AllocatedResources{Tasks: resources},
		Job: &nomad.Job{
			ID: "job", Name: "job", Type: jobType, Namespace: "default", Region: "global",
			TaskGroups: []*nomad.TaskGroup{{Name: "group", Count: 1, Tasks: tasks}},
		},
	}
}

func TestBatchEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config map[string]any
		status string
		code   int
	}{
		{"well", map[string]any{"run_for": "3s"}, nomad.AllocClientStatusComplete, 0},
		{"badly", map[string]any{"run_for": "3s", "exit_code": 7}, nomad.AllocClientStatusFailed, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start := time.Now()
				got := w.run(allocation(nomad.JobTypeBatch, mockTask("main", tc.config)))
				if got.ClientStatus != tc.status {
					t.Errorf("status = %q, want %q", got.ClientStatus, tc.status)
				}
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("took %v, want the task's 3s without a delay", took)
				}
				if code := exitCode(got.TaskStates["main"]); code != tc.code {
					t.Errorf("exit code = %d, want %d", code, tc.code)
				}
			})
		})
	}
}

func exitCode(s *nomad.TaskState) int {
	for _, e := range s.Events {
		if e.Type == nomad.TaskTerminated {
			return e.ExitCode
		}
	}
	return -1000
}
