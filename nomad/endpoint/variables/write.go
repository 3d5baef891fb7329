package variables

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// Write applies an operation to a variable.
func (s *Service) Write(ctx context.Context, c *rpc.Call, req *message.VariablesApplyRequest) (*message.VariablesApplyResponse, error) {
	entry, err := s.entry(ctx, c, req)
	if err != nil {
		return nil, err
	}
	defer metrics.MeasureSince([]string{"nomad", "variables", "apply", string(entry.Op)}, time.Now())
	done, index, err := handler.ApplyFor[*message.VarApplyStateResponse](ctx, s.Core, message.VarApplyStateRequestType, entry)
	if err != nil && index > 0 {
		return nil, handler.BadRequest(err)
	}
	if err != nil {
		return nil, err
	}
	out := &message.VariablesApplyResponse{Op: req.Op, Result: done.Result}
	out.Index = index
	if done.Conflict != nil {
		if out.Conflict, err = s.conflict(ctx, c, done.Conflict, entry.Var.LockID()); out.Conflict != nil &&
			!reads(c, &done.Conflict.Metadata) {
			out.Result = variable.ResultRedacted
		}
		return out, err
	}
	s.countLock(req.Op, entry.Var, done.Written)
	if done.Written != nil {
		out.Output = &variable.Decrypted{Metadata: *done.Written, Items: req.Var.Items}
		switch {
		case entry.Op == variable.OpLockRelease:
			out.Output.Items = nil
		case entry.KeepItems:
			out.Output.Items, err = s.keptItems(ctx, c, done.Written)
		}
	}
	return out, err
}

// countLock updates the timer of a lock after an operation.
func (s *Service) countLock(op variable.Op, v *variable.Encrypted, written *variable.Metadata) {
	switch {
	case v.LockID() == "":
	case op == variable.OpLockRelease || op.Deletes():
		s.cfg.Locks.Clear(v.LockID())
	default:
		s.cfg.Locks.Reset(written) // a write renews the lock, unless it has expired
	}
}

// reads reports whether the caller may read a variable.
func reads(c *rpc.Call, m *variable.Metadata) bool {
	return c.Access.Allows(acl.OfVariable(m.Namespace, m.Path, acl.VariableRead))
}

// keptItems returns the items of a variable after an operation that kept them, for callers with read access.
func (s *Service) keptItems(ctx context.Context, c *rpc.Call, m *variable.Metadata) (variable.Items, error) {
	if v := s.Snapshot().Variable(nil, m.Namespace, m.Path); reads(c, m) && v != nil && v.ModifyIndex == m.ModifyIndex {
		return s.decrypt(ctx, v)
	}
	return nil, nil
}

// conflict returns the variable that caused a conflict. It omits the items for callers
// without read access, and the lock ID for callers who do not hold the lock.
func (s *Service) conflict(ctx context.Context, c *rpc.Call, v *variable.Encrypted, holder string) (*variable.Decrypted, error) {
	out := &variable.Decrypted{Metadata: v.Metadata}
	if reads(c, &v.Metadata) {
		var err error
		if out.Items, err = s.decrypt(ctx, v); err != nil {
			return nil, err
		}
	}
	if v.Lock != nil && v.Lock.ID != holder {
		out.Metadata = *withoutHolder(&v.Metadata)
	}
	return out, nil
}

// entry validates a request, checks the caller's rights and returns the log entry.
func (s *Service) entry(ctx context.Context, c *rpc.Call, req *message.VariablesApplyRequest) (*message.VarApplyStateRequest, error) {
	if req.Var == nil {
		return nil, cmp.Or(need(c, handler.NamespaceOf(req.Namespace), "", acl.VariableWrite), apierror.Errorf(400, "variable must be specified"))
	}
	now := s.UnixNow()
	v := &variable.Encrypted{Metadata: variable.Metadata{Path: req.Var.Path, ModifyIndex: req.Var.ModifyIndex,
		CreateTime: now, ModifyTime: now}}
	v.Namespace = cmp.Or(req.Var.Namespace, handler.NamespaceOf(req.Namespace))
	op := acl.VariableWrite
	if req.Op.Deletes() {
		op = acl.VariableDestroy
	}
	if err := need(c, v.Namespace, v.Path, op); err != nil {
		return nil, err
	}
	if req.Namespace != "" && req.Namespace != v.Namespace {
		return nil, apierror.Errorf(400, "namespace %q of the variable does not match namespace %q of the request", v.Namespace, req.Namespace)
	}
	if err := handler.KnownNamespace(s.Snapshot(), v.Namespace); err != nil {
		return nil, err
	}
	if req.Var.Lock != nil {
		lock := *req.Var.Lock
		v.Lock = &lock
	}
	entry := &message.VarApplyStateRequest{Op: req.Op, Var: v}
	if err := s.fitOperation(ctx, entry, req.Var.Items); err != nil {
		return nil, err
	}
	if !req.Op.Stores() && req.Op != variable.OpLockAcquire {
		return entry, nil
	}
	entry.Allowance = s.Snapshot().QuotaOf(nil, v.Namespace).Variables(s.Region)
	data, err := s.encrypt(ctx, req.Var.Items)
	v.Ciphertext = data
	return entry, err
}

// fitOperation validates an operation.
func (s *Service) fitOperation(ctx context.Context, entry *message.VarApplyStateRequest, items variable.Items) error {
	v := entry.Var
	switch entry.Op {
	case variable.OpSet, variable.OpCAS:
		switch {
		case len(items) == 0 && s.hasNoItems(ctx, v): // stays without items
		case len(items) == 0 && v.LockID() != "":
			entry.KeepItems = true // the holder only renews the lock
		default:
			if err := items.Check(); err != nil {
				return err
			}
		}
		return variable.CheckPath(v.Path)
	case variable.OpLockAcquire:
		if entry.KeepItems = len(items) == 0; !entry.KeepItems {
			if err := items.Check(); err != nil {
				return err
			}
		}
		if err := variable.CheckPath(v.Path); err != nil {
			return err
		}
		return s.fitLock(v)
	case variable.OpLockRelease:
		if v.LockID() == "" {
			return apierror.Errorf(400, "missing lock ID: only the lock holder can release the variable")
		}
	case variable.OpDelete, variable.OpDeleteCAS:
	default:
		return apierror.Errorf(400, "unknown variable operation %q", entry.Op)
	}
	if v.Path == "" { // other invalid paths are allowed, so that restored variables can be deleted
		return apierror.Errorf(400, "missing variable path")
	}
	return nil
}

// hasNoItems reports whether the variable exists without items, because it was created only
// as a lock.
func (s *Service) hasNoItems(ctx context.Context, v *variable.Encrypted) bool {
	old := s.Snapshot().Variable(nil, v.Namespace, v.Path)
	if old == nil {
		return false
	}
	items, err := s.decrypt(ctx, old)
	return err == nil && len(items) == 0
}

// fitLock completes a lock that is to be acquired. The server generates its ID, because an ID
// chosen by a client could be guessed.
func (s *Service) fitLock(v *variable.Encrypted) error {
	if v.Lock == nil {
		v.Lock = &variable.Lock{}
	}
	if err := v.Lock.Fill(); err != nil {
		return err
	}
	if v.Lock.ID == "" {
		v.Lock.ID = nomad.NewID()
		return nil
	}
	if old := s.Snapshot().Variable(nil, v.Namespace, v.Path); old == nil || old.LockID() != v.Lock.ID {
		return apierror.Errorf(409, "lock not held: acquire it without an ID")
	}
	return nil
}

// RenewLock restarts the TTL of a lock. It writes nothing.
func (s *Service) RenewLock(_ context.Context, c *rpc.Call,
	req *message.VariablesRenewLockRequest) (*message.VariablesRenewLockResponse, error) {
	snap, ns := s.Snapshot(), handler.NamespaceOf(req.Namespace)
	if err := need(c, ns, req.Path, acl.VariableWrite); err != nil {
		return nil, err
	}
	switch {
	case req.Path == "":
		return nil, apierror.Errorf(400, "missing variable path")
	case req.LockID == "":
		return nil, apierror.Errorf(400, "missing lock ID: only the lock holder can renew the lock")
	}
	if err := handler.KnownNamespace(snap, ns); err != nil {
		return nil, err
	}
	v := snap.Variable(nil, ns, req.Path)
	switch {
	case v == nil:
		return nil, apierror.Errorf(404, "variable not found")
	case v.LockID() != req.LockID:
		return nil, apierror.Errorf(409, "variable %q: lock not held by this ID: acquire it again", req.Path)
	case !s.cfg.Locks.Reset(&v.Metadata):
		return nil, apierror.Errorf(409, "variable %q: lock expired because it was not renewed in time: acquire it again", req.Path)
	}
	out := &message.VariablesRenewLockResponse{VarMeta: &v.Metadata}
	out.Index = v.ModifyIndex
	return out, nil
}

// Locks manages the TTL timers of variable locks.
type Locks interface {
	// Reset restarts the TTL of a lock. It reports false if the lock has expired.
	Reset(v *variable.Metadata) bool
	// Clear stops the timer of a lock.
	Clear(lockID string)
}
