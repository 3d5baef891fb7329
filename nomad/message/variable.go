package message

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// VarApplyStateRequest is the log entry that changes a variable. KeepItems (open-nomad only) keeps the items of an existing
// variable. Allowance (open-nomad only) is the limit from the quota of its namespace. It is nil if the quota does not
// limit variables.
type VarApplyStateRequest struct {
	Op        variable.Op
	Var       *variable.Encrypted
	KeepItems bool
	Allowance *quota.VariablesAllowance
	WriteRequest
}

// VarApplyStateResponse is the result of the log entry: the written variable or the conflicting one. If the conflicting
// variable does not exist, only its namespace and path are set.
type VarApplyStateResponse struct {
	Op       variable.Op
	Result   variable.Result
	Conflict *variable.Encrypted
	Written  *variable.Metadata
}

// String returns the result of the operation and its index, without data.
func (r *VarApplyStateResponse) String() string {
	switch {
	case r.Conflict != nil:
		return fmt.Sprintf("%s: %s with index %d, held by %q", r.Op, r.Result, r.Conflict.ModifyIndex, r.Conflict.LockID())
	case r.Written != nil:
		return fmt.Sprintf("%s: %s at index %d, created at %d, held by %q", r.Op, r.Result, r.Written.ModifyIndex, r.Written.CreateIndex,
			r.Written.LockID())
	}
	return fmt.Sprintf("%s: %s", r.Op, r.Result)
}

// VariablesApplyRequest is the request of Variables.Apply.
type VariablesApplyRequest struct {
	Op  variable.Op
	Var *variable.Decrypted
	WriteRequest
}

// VariablesApplyResponse is the reply of Variables.Apply. Error is always nil: errors are returned as RPC errors.
type VariablesApplyResponse struct {
	Op       variable.Op
	Input    *variable.Decrypted
	Result   variable.Result
	Error    any
	Conflict *variable.Decrypted
	Output   *variable.Decrypted
	WriteMeta
}

// VariablesListRequest is the request of Variables.List.
type VariablesListRequest struct {
	QueryOptions
}

// VariablesListResponse is the reply of Variables.List.
type VariablesListResponse struct {
	Data []*variable.Metadata
	QueryMeta
}

// VariablesReadRequest is the request of Variables.Read.
type VariablesReadRequest struct {
	Path string
	QueryOptions
}

// VariablesReadResponse is the reply of Variables.Read.
type VariablesReadResponse struct {
	Data *variable.Decrypted
	QueryMeta
}

// VariablesTreeRequest is the request of Variables.Tree. It selects the variables whose path begins with Prefix of the
// QueryOptions.
type VariablesTreeRequest struct{ QueryOptions }

// VariablesTreeResponse is the reply of Variables.Tree: the variables that the caller may read, with their items, sorted
// by path.
type VariablesTreeResponse struct {
	Data []*variable.Decrypted
	QueryMeta
}

// VariablesRenewLockRequest is the request of Variables.RenewLock.
type VariablesRenewLockRequest struct {
	Path   string
	LockID string
	WriteRequest
}

// VariablesRenewLockResponse is the reply of Variables.RenewLock.
type VariablesRenewLockResponse struct {
	VarMeta *variable.Metadata
	WriteMeta
}
