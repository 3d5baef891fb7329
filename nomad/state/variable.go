package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/state/table"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

var variables = &table.Table[variable.Encrypted]{
	Name:   TableVariables,
	Events: true,
	ID:     func(v *variable.Encrypted) table.Key { return table.KeyOf(v.Namespace, v.Path) },
	Indexes: []table.Index[variable.Encrypted]{
		{Name: "key_id", Key: func(v *variable.Encrypted) table.Key { return table.KeyOf(v.KeyID) }},
		{Name: "locked", Key: func(v *variable.Encrypted) table.Key {
			if v.Lock == nil {
				return nil
			}
			return table.KeyOf(v.Namespace, v.Path)
		}},
	},
}

var variableQuotas = &table.Table[variable.Quota]{
	Name: TableVariablesQuota,
	ID:   func(q *variable.Quota) table.Key { return table.KeyOf(q.Namespace) },
}

// Variable returns the variable, or nil if there is none.
func (s *Snapshot) Variable(ws memdb.WatchSet, namespace, path string) *variable.Encrypted {
	return variables.Get(s.tx, ws, table.KeyOf(namespace, path))
}

// Variables returns every variable, by namespace and path.
func (s *Snapshot) Variables(ws memdb.WatchSet) iter.Seq[*variable.Encrypted] {
	return variables.All(s.tx, ws)
}

// VariablesIn returns the variables of a namespace whose path begins with prefix, by path.
func (s *Snapshot) VariablesIn(ws memdb.WatchSet, namespace, prefix string) iter.Seq[*variable.Encrypted] {
	return variables.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(namespace, prefix))
}

// VariablesByKey returns the variables that are encrypted with a root key.
func (s *Snapshot) VariablesByKey(ws memdb.WatchSet, kid string) iter.Seq[*variable.Encrypted] {
	return variables.By(s.tx, ws, "key_id", table.KeyOf(kid))
}

// LockedVariables returns the variables that are locked.
func (s *Snapshot) LockedVariables() iter.Seq[*variable.Encrypted] {
	return variables.By(s.tx, nil, "locked", nil)
}

// VariablesQuota returns the total size of the variables of a namespace, or nil if it never had
// one.
func (s *Snapshot) VariablesQuota(ws memdb.WatchSet, namespace string) *variable.Quota {
	return variableQuotas.Get(s.tx, ws, table.KeyOf(namespace))
}

// ApplyVariable applies an operation to a variable. If the lock or the index conflicts, the
// variable is unchanged and the response holds it as Conflict.
func (s *Store) ApplyVariable(index uint64, req *message.VarApplyStateRequest) (
	out *message.VarApplyStateResponse, changes *Changes, err error,
) {
	changes, err = s.write(index, func(t *txn) error {
		if req.Var == nil {
			return fmt.Errorf("variable operation %q: missing variable", req.Op)
		}
		out, err = t.applyVariable(req)
		return err
	})
	return out, changes, err
}

func (t *txn) applyVariable(req *message.VarApplyStateRequest) (*message.VarApplyStateResponse, error) {
	op, v := req.Op, req.Var
	out := &message.VarApplyStateResponse{Op: op, Result: variable.ResultOk}
	old := variables.Get(t, nil, table.KeyOf(v.Namespace, v.Path))
	if inTheWay(op, old, v) {
		out.Result, out.Conflict = variable.ResultConflict, old
		if old == nil {
			out.Conflict = &variable.Encrypted{Metadata: variable.Metadata{Namespace: v.Namespace, Path: v.Path}}
		}
		return out, nil
	}
	if op.Deletes() {
		if old != nil {
			variables.Delete(t.Txn, old)
			t.countVariable(v.Namespace, -len(old.Data))
		}
		return out, nil
	}
	if namespaces.Get(t, nil, table.KeyOf(v.Namespace)) == nil {
		return nil, fmt.Errorf("namespace %q does not exist", v.Namespace)
	}
	next := *v
	if old != nil && req.KeepItems {
		next.Ciphertext = old.Ciphertext
	}
	switch op {
	case variable.OpSet, variable.OpCAS:
		if next.Lock = nil; old != nil {
			next.Lock = old.Lock
		}
	case variable.OpLockAcquire:
	case variable.OpLockRelease:
		next.Lock, next.Ciphertext = nil, old.Ciphertext
	default:
		return nil, fmt.Errorf("unknown variable operation %q", op)
	}
	if err := t.roomForVariable(&next, old, req.Allowance); err != nil {
		return nil, err
	}
	out.Written = &t.putVariable(&next, old).Metadata
	return out, nil
}

// roomForVariable returns an error if the write would exceed the quota of the namespace. The
// check is here because only the log orders writes.
func (t *txn) roomForVariable(v, old *variable.Encrypted, allowed *quota.VariablesAllowance) error {
	grown := int64(len(v.Data))
	if old != nil {
		grown -= int64(len(old.Data))
	}
	if allowed == nil || grown <= 0 {
		return nil
	}
	if needed := variablesUsed(t, nil, allowed.Quota) + grown; needed > allowed.Bytes {
		return apierror.Errorf(400, "variable %q of namespace %q: quota %q allows %d bytes of variables, but %d are needed",
			v.Path, v.Namespace, allowed.Quota, allowed.Bytes, needed)
	}
	return nil
}

// inTheWay reports whether the stored variable conflicts with an operation.
func inTheWay(op variable.Op, old, v *variable.Encrypted) bool {
	var held string
	var index uint64
	if old != nil {
		held, index = old.LockID(), old.ModifyIndex
	}
	switch op {
	case variable.OpCAS, variable.OpDeleteCAS:
		return held != v.LockID() || index != v.ModifyIndex
	case variable.OpLockAcquire:
		return held != "" && held != v.LockID()
	case variable.OpLockRelease:
		return held == "" || held != v.LockID()
	}
	return held != v.LockID()
}

// putVariable stores a variable that the caller owns in place of old.
func (t *txn) putVariable(v, old *variable.Encrypted) *variable.Encrypted {
	v.CreateIndex, v.ModifyIndex = t.Index, t.Index
	grown := len(v.Data)
	if old != nil {
		v.CreateIndex, v.CreateTime = old.CreateIndex, old.CreateTime
		grown -= len(old.Data)
	}
	variables.Put(t.Txn, v)
	t.countVariable(v.Namespace, grown)
	return v
}

// countVariable adds grown to the size of the variables of a namespace.
func (t *txn) countVariable(namespace string, grown int) {
	q := variable.Quota{Namespace: namespace, CreateIndex: t.Index}
	if old := variableQuotas.Get(t, nil, table.KeyOf(namespace)); old != nil {
		q = *old
	}
	q.Size = max(q.Size+int64(grown), 0)
	q.ModifyIndex = t.Index
	variableQuotas.Put(t.Txn, &q)
}
