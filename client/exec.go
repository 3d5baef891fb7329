package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxCommand is the maximum size of a command with its arguments; the kernel's limit is
// slightly higher.
const maxCommand = 128 << 10

// ofExec is the subject of exec requests. A privileged task, and one without file system
// isolation, gives full access to the node, so exec in it requires alloc-node-exec.
func ofExec(c *Client) subject[message.AllocExecRequest] {
	s := ofAlloc(c, func(r *message.AllocExecRequest) string { return r.AllocID }, acl.AllocExec)
	inNamespace := s.need
	s.check += ", and ns:[alloc-node-exec] if its driver does not isolate tasks, or it is privileged"
	s.need = func(a *rpc.Access, r *message.AllocExecRequest) error {
		if err := inNamespace(a, r); err != nil {
			return err
		}
		namespace, open, err := c.runsOpen(r)
		if err != nil || !open {
			return err
		}
		return a.Need(acl.InNamespace(namespace, acl.AllocNodeExec))
	}
	s.granted = func(t *ticket.Ticket, r *message.AllocExecRequest) error {
		namespace, open, err := c.runsOpen(r)
		if err != nil || !open || t.Grants(string(acl.AllocNodeExec)) {
			return err
		}
		return rpc.Denied(acl.InNamespace(namespace, acl.AllocNodeExec))
	}
	return s
}

// runsOpen reports whether a task is privileged or its driver provides no isolation, and returns the
// namespace of the allocation.
func (c *Client) runsOpen(r *message.AllocExecRequest) (namespace string, open bool, err error) {
	namespace, task, err := c.allocs.taskOf(r.AllocID, r.Task)
	if err != nil && r.Action != "" && c.HasAlloc(r.AllocID) {
		err = unknownAction(r)
	}
	if err != nil {
		return "", false, err
	}
	d, err := c.drivers.Driver(task.Driver)
	return namespace, err != nil || task.Privileged || d.Capabilities().FSIsolation == drivers.FSIsolationNone, nil
}

// allocExec runs a program in a task and connects it to the stream.
func (c *Client) allocExec(ctx context.Context, call *rpc.Call, req *message.AllocExecRequest, st *rpc.Stream) error {
	if err := c.checkExec(req); err != nil {
		return err
	}
	h, err := c.allocs.find(req.AllocID)
	if err != nil {
		return err
	}
	release, err := c.execs.Take(req.AllocID)
	if err != nil {
		return err
	}
	defer release()
	who := audit.AuthOf(call.Identity)
	log := c.log.With("alloc", req.AllocID, "task", req.Task, "accessor", who.AccessorID, "kind", who.Kind)
	log.Info("exec session started", "tty", req.Tty) // never log the command: it may hold secrets
	begun := time.Now()
	exit, err := exec.Session{Command: req.Cmd, Tty: req.Tty, Run: func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
		return h.runner.Exec(ctx, req.Task, o)
	}}.Serve(ctx, st)
	took := time.Since(begun).Round(time.Millisecond)
	switch {
	case errors.Is(err, exec.ErrGone):
		log.Info("exec session aborted", "took", took)
		return nil
	case err != nil:
		log.Info("exec session failed", "took", took, "err", err)
		if errors.Is(err, drivers.ErrNoExec) {
			return nomad.Errorf(http.StatusBadRequest, "%v", err)
		}
		return idle(err)
	}
	log.Info("exec session finished", "took", took, "exit", exit.ExitCode)
	return nil
}

// checkExec rejects requests that cannot be run.
func (c *Client) checkExec(req *message.AllocExecRequest) error {
	if c.cfg.DisableRemoteExec {
		return nomad.Errorf(http.StatusForbidden, "exec is disabled on this node by disable_remote_exec in its client block: %v", nomad.ErrPermissionDenied)
	}
	if err := c.resolveAction(req); err != nil {
		return err
	}
	if len(req.Cmd) == 0 || req.Cmd[0] == "" {
		return nomad.Errorf(http.StatusBadRequest, "must provide a command to run")
	}
	size := 0
	for _, arg := range req.Cmd {
		size += len(arg) + 1
		if strings.ContainsRune(arg, 0) {
			return nomad.Errorf(http.StatusBadRequest, "an argument of the command contains a NUL byte")
		}
	}
	if size > maxCommand {
		return nomad.Errorf(http.StatusBadRequest, "the command has %d bytes, at most %d are allowed", size, maxCommand)
	}
	_, _, err := c.allocs.taskOf(req.AllocID, req.Task)
	return err
}

// taskOf returns the namespace of an allocation and one of its tasks.
func (s *allocSet) taskOf(id, name string) (namespace string, task *nomad.Task, err error) {
	h, err := s.find(id)
	if err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := h.alloc.Job.TaskGroup(h.alloc.TaskGroup)
	if group == nil {
		return "", nil, nomad.UnknownAlloc(id)
	}
	if t := group.Task(name); t != nil {
		return h.alloc.Namespace, t, nil
	}
	var names []string
	for _, t := range group.Tasks {
		names = append(names, t.Name)
	}
	if name == "" {
		return "", nil, nomad.Errorf(http.StatusBadRequest, "must provide task name: the allocation has %s", strings.Join(names, ", "))
	}
	return "", nil, nomad.Errorf(http.StatusNotFound, "unknown task name %q: the allocation has %s", name, strings.Join(names, ", "))
}
