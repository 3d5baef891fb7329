package taskhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/workloadapi"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// spiffeEnv is the variable in which clients of the Workload API expect its address.
const spiffeEnv = "SPIFFE_ENDPOINT_SOCKET"

// maxSocketPath is the size limit of the kernel for the path of a unix socket.
const maxSocketPath = 107

// Spiffe holds what the Workload API of the tasks of a node needs.
type Spiffe struct {
	RPC     message.Caller
	Region  string
	Bundles *workloadapi.Bundles
}

// spiffeHook serves the SPIFFE Workload API to a task with a spiffe block. The socket can be opened
// by the task's user only, and the API answers only processes in the task's control group.
type spiffeHook struct {
	node   *Spiffe
	parent string // the CgroupParent of the node
	log    *slog.Logger
}

func newSpiffeHook(c Config) hook.Hook {
	h := &spiffeHook{node: c.Spiffe, log: c.Log}
	if c.Node != nil {
		h.parent = c.Node.CgroupParent
	}
	return h
}

func (*spiffeHook) Name() string { return "spiffe" }

func (h *spiffeHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if req.Task.Spiffe == nil {
		return nil
	}
	if req.Dir == nil {
		return errNoDir
	}
	if h.node == nil {
		return setupFault(errors.New("this client does not serve the SPIFFE Workload API"))
	}
	group, err := h.group(req)
	if err != nil {
		return setupFault(fmt.Errorf("find the control group of the task: %w", err))
	}
	file := path.Join(req.Env.Var("NOMAD_SECRETS_DIR"), spiffe.SocketName)
	if len(file) > maxSocketPath {
		return &Fault{Type: nomad.TaskSetupFailure, Err: fmt.Errorf(
			"the path of the SPIFFE socket, %s, has %d bytes: the kernel allows %d: use a shorter alloc_dir or task name", file, len(file),
			maxSocketPath)}
	}
	l, err := listen(ctx, req.Dir.Secrets(), spiffe.SocketName, req.Owner)
	if err != nil {
		return setupFault(fmt.Errorf("create the SPIFFE socket: %w", err))
	}
	resp.Env = map[string]string{spiffeEnv: "unix://" + file}
	secrets := req.Dir.Secrets()
	srv := &workloadapi.Server{Bundles: h.node.Bundles, Group: group, Task: workloadapi.Task{
		Alloc: req.Alloc, Task: req.Task, Region: h.node.Region, RPC: h.node.RPC, Log: h.log}}
	resp.Background = func(ctx context.Context) {
		if err := srv.Serve(ctx, l); err != nil {
			h.log.Warn("SPIFFE socket ended", "err", err)
		}
		if err := secrets.Remove(spiffe.SocketName); err != nil {
			h.log.Warn("remove the SPIFFE socket", "err", err)
		}
	}
	return nil
}

// group returns the control group of the task, which its driver creates.
func (h *spiffeHook) group(req *TaskPrestartRequest) (*cgroup.Group, error) {
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	var cores []uint16
	if req.Resources != nil {
		cores = req.Resources.Cpu.ReservedCores
	}
	return tree.Open(drivers.TaskGroup(h.parent, req.Alloc.ID, req.Task.Name, cores))
}
