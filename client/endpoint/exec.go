package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxCommand is the maximum size of a command with its arguments; the kernel's limit is
// slightly higher.
const maxCommand = 128 << 10

// sessions handles exec requests.
type sessions struct {
	allocs   *allocs.Set
	drivers  *driverset.Set
	disabled bool
	limits   *exec.Limits
	log      *slog.Logger
}

// unconfined reports whether a task is privileged or its driver provides no isolation, and returns the
// namespace of the allocation.
func (h sessions) unconfined(r *message.AllocExecRequest) (namespace string, open bool, err error) {
	namespace, task, err := h.allocs.JobTask(r.AllocID, r.Task)
	if err != nil && r.Action != "" && h.allocs.Has(r.AllocID) {
		err = unknownAction(r)
	}
	if err != nil {
		return "", false, err
	}
	d, err := h.drivers.Driver(task.Driver)
	return namespace, err != nil || task.Privileged || d.Capabilities().FSIsolation == drivers.FSIsolationNone, nil
}

// exec runs a program in a task and connects it to the stream.
func (h sessions) exec(ctx context.Context, call *rpc.Call, req *message.AllocExecRequest, st *rpc.Stream) error {
	if err := h.check(req); err != nil {
		return err
	}
	e, err := h.allocs.Find(req.AllocID)
	if err != nil {
		return err
	}
	release, err := h.limits.Take(req.AllocID)
	if err != nil {
		return err
	}
	defer release()
	who := audit.AuthOf(call.Identity)
	log := h.log.With("alloc", req.AllocID, "task", req.Task, "accessor", who.AccessorID, "kind", who.Kind)
	log.Info("exec session started", "tty", req.Tty) // never log the command: it may hold secrets
	begun := time.Now()
	run := func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
		return e.Runner.Exec(ctx, req.Task, o)
	}
	exit, err := exec.Session{Command: req.Cmd, Tty: req.Tty, Run: run}.Serve(ctx, st)
	took := time.Since(begun).Round(time.Millisecond)
	switch {
	case errors.Is(err, exec.ErrGone):
		log.Info("exec session aborted", "took", took)
		return nil
	case err != nil:
		log.Info("exec session failed", "took", took, "err", err)
		if errors.Is(err, drivers.ErrNoExec) {
			return apierror.Errorf(http.StatusBadRequest, "%v", err)
		}
		return idle(err)
	}
	log.Info("exec session finished", "took", took, "exit", exit.ExitCode)
	return nil
}

// check rejects requests that cannot be run.
func (h sessions) check(req *message.AllocExecRequest) error {
	if h.disabled {
		return apierror.Errorf(http.StatusForbidden, "exec is disabled on this node by disable_remote_exec in its client block: %v",
			apierror.ErrPermissionDenied)
	}
	if err := h.resolveAction(req); err != nil {
		return err
	}
	if len(req.Cmd) == 0 || req.Cmd[0] == "" {
		return apierror.Errorf(http.StatusBadRequest, "must provide a command to run")
	}
	size := 0
	for _, arg := range req.Cmd {
		size += len(arg) + 1
		if strings.ContainsRune(arg, 0) {
			return apierror.Errorf(http.StatusBadRequest, "an argument of the command contains a NUL byte")
		}
	}
	if size > maxCommand {
		return apierror.Errorf(http.StatusBadRequest, "the command has %d bytes, at most %d are allowed", size, maxCommand)
	}
	_, _, err := h.allocs.JobTask(req.AllocID, req.Task)
	return err
}

// resolveAction replaces the command of a request by that of the action it names. The action is
// looked up in the version of the job that the allocation runs. Its command is used as stored,
// without interpolation.
func (h sessions) resolveAction(req *message.AllocExecRequest) error {
	if req.JobID != "" {
		job, err := h.allocs.JobID(req.AllocID)
		if err != nil {
			return err
		}
		if job != req.JobID {
			return apierror.Errorf(http.StatusBadRequest, "allocation %s is of another job than %q", req.AllocID, req.JobID)
		}
	}
	if req.Action == "" {
		return nil
	}
	_, task, err := h.allocs.JobTask(req.AllocID, req.Task)
	if err == nil {
		for _, a := range task.Actions {
			if a.Name == req.Action {
				req.Cmd = append([]string{a.Command}, a.Args...)
				return nil
			}
		}
	}
	return unknownAction(req)
}

func unknownAction(req *message.AllocExecRequest) error {
	return apierror.Errorf(http.StatusBadRequest, "action %s not found in task %s", req.Action, req.Task)
}
