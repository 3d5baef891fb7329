package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// VariableItems are the names and values of a variable.
type VariableItems map[string]string

// Variable is a variable with its items. Times are in Unix nanoseconds.
type Variable struct {
	Namespace   string `hcl:"namespace"`
	Path        string `hcl:"path"`
	CreateIndex uint64 `hcl:"create_index"`
	ModifyIndex uint64 `hcl:"modify_index"`
	CreateTime  int64  `hcl:"create_time"`
	ModifyTime  int64  `hcl:"modify_time"`
	Items       VariableItems
	Lock        *VariableLock `json:",omitempty"`
}

// VariableMetadata is a variable without its items.
type VariableMetadata struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64
	ModifyTime  int64
	Lock        *VariableLock `json:",omitempty"`
}

// VariableLock is the lock of a variable. Durations are strings such as "15s".
type VariableLock struct {
	ID        string
	TTL       string
	LockDelay string
}

// NewVariable returns a variable without items.
func NewVariable(path string) *Variable { return &Variable{Path: path, Items: VariableItems{}} }

// Copy returns a deep copy.
func (v *Variable) Copy() *Variable {
	out := *v
	out.Items = maps.Clone(v.Items)
	if v.Lock != nil {
		lock := *v.Lock
		out.Lock = &lock
	}
	return &out
}

// Metadata returns the variable without its items.
func (v *Variable) Metadata() *VariableMetadata {
	return &VariableMetadata{Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
		CreateTime: v.CreateTime, ModifyTime: v.ModifyTime, Lock: v.Copy().Lock}
}

// LockID returns the ID of the lock, or "" without a lock.
func (v *Variable) LockID() string {
	if v.Lock == nil {
		return ""
	}
	return v.Lock.ID
}

// AsJSON returns the variable as JSON.
func (v *Variable) AsJSON() string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // encoding strings and numbers never fails
	}
	return string(text)
}

// AsPrettyJSON returns the variable as indented JSON.
func (v *Variable) AsPrettyJSON() string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "" // encoding strings and numbers never fails
	}
	return string(text)
}

// ErrVariableNotFound is the error text for a missing variable.
const ErrVariableNotFound = "variable not found"

// Errors of variables.
var (
	// ErrVariablePathNotFound means that no variable with the path exists.
	ErrVariablePathNotFound = errors.New(ErrVariableNotFound)
	// ErrLockConflict means that the lock has another holder, or none.
	ErrLockConflict = errors.New("conflicting operation over lock")
)

// ErrCASConflict means that the variable's index differs from the expected one. Conflict is
// the current variable.
type ErrCASConflict struct {
	CheckIndex uint64
	Conflict   *Variable
}

// Error returns a text with both indexes.
func (e ErrCASConflict) Error() string {
	return fmt.Sprintf("cas conflict: expected ModifyIndex %d; found %d", e.CheckIndex, e.Conflict.ModifyIndex)
}

// Variables is the handle for variables.
type Variables struct{ client *Client }

// Variables returns the handle for variables.
func (c *Client) Variables() *Variables { return &Variables{c} }

// Create creates or replaces a variable.
func (vars *Variables) Create(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	return vars.store(v, "", qo)
}

// CheckedCreate creates a variable. An existing variable is an ErrCASConflict.
func (vars *Variables) CheckedCreate(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	fresh := v.Copy()
	fresh.ModifyIndex = 0
	return vars.CheckedUpdate(fresh, qo)
}

// Update is equivalent to Create.
func (vars *Variables) Update(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	return vars.Create(v, qo)
}

// CheckedUpdate replaces a variable if the stored one has the same ModifyIndex. Otherwise
// the error is an ErrCASConflict.
func (vars *Variables) CheckedUpdate(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	return vars.store(v, fmt.Sprintf("?cas=%d", v.ModifyIndex), qo)
}

func (vars *Variables) store(v *Variable, query string, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	out := new(Variable)
	meta, err := vars.client.put(variablePath(v.Path)+query, cleaned(v), out, qo)
	if err != nil {
		return nil, nil, conflict(err, v.ModifyIndex)
	}
	return out, meta, nil
}

// conflict converts a response with status 409 to an ErrCASConflict.
func conflict(err error, checked uint64) error {
	var e UnexpectedResponseError
	if !errors.As(err, &e) || e.StatusCode() != http.StatusConflict {
		return err
	}
	found := new(Variable)
	if json.Unmarshal([]byte(e.Body()), found) != nil {
		return err // the body is an error text
	}
	return ErrCASConflict{CheckIndex: checked, Conflict: found}
}

// Delete deletes a variable. A missing variable is not an error.
func (vars *Variables) Delete(path string, qo *WriteOptions) (*WriteMeta, error) {
	meta, err := vars.client.write(call{http.MethodDelete, variablePath(path), nil, nil}, qo)
	return meta, conflict(err, 0)
}

// CheckedDelete deletes a variable if it has the index. Otherwise the error is an
// ErrCASConflict.
func (vars *Variables) CheckedDelete(path string, checkIndex uint64, qo *WriteOptions) (*WriteMeta, error) {
	meta, err := vars.client.write(call{http.MethodDelete, fmt.Sprintf("%s?cas=%d", variablePath(path), checkIndex), nil, nil}, qo)
	return meta, conflict(err, checkIndex)
}

// Read returns a variable, or ErrVariablePathNotFound if it does not exist.
func (vars *Variables) Read(path string, qo *QueryOptions) (*Variable, *QueryMeta, error) {
	v, meta, err := get[*Variable](vars.client, variablePath(path), qo)
	if StatusCode(err) == http.StatusNotFound && strings.Contains(err.Error(), ErrVariableNotFound) {
		return nil, nil, ErrVariablePathNotFound
	}
	return v, meta, err
}

// Peek is like Read, but returns nil without an error if the variable does not exist.
func (vars *Variables) Peek(path string, qo *QueryOptions) (*Variable, *QueryMeta, error) {
	v, meta, err := vars.Read(path, qo)
	if errors.Is(err, ErrVariablePathNotFound) {
		return nil, nil, nil
	}
	return v, meta, err
}

// GetVariableItems returns the items of a variable.
func (vars *Variables) GetVariableItems(path string, qo *QueryOptions) (VariableItems, *QueryMeta, error) {
	v, meta, err := vars.Read(path, qo)
	if err != nil {
		return nil, nil, err
	}
	return v.Items, meta, nil
}

// GetItems is like GetVariableItems, but returns a pointer.
func (vars *Variables) GetItems(path string, qo *QueryOptions) (*VariableItems, *QueryMeta, error) {
	items, meta, err := vars.GetVariableItems(path, qo)
	if err != nil {
		return nil, nil, err
	}
	return &items, meta, nil
}

// List lists the variables, sorted by path.
func (vars *Variables) List(qo *QueryOptions) ([]*VariableMetadata, *QueryMeta, error) {
	return get[[]*VariableMetadata](vars.client, "/v1/vars", qo)
}

// Tree returns the variables of a namespace whose path begins with prefix, with their items, sorted by path. It leaves out
// those that the caller may not read. It is not in Nomad.
func (vars *Variables) Tree(prefix string, qo *QueryOptions) ([]*Variable, *QueryMeta, error) {
	opts := QueryOptions{}
	if qo != nil {
		opts = *qo
	}
	opts.Prefix = prefix
	return get[[]*Variable](vars.client, "/v1/vars/tree", &opts)
}

// PrefixList lists the variables whose path begins with prefix.
func (vars *Variables) PrefixList(prefix string, qo *QueryOptions) ([]*VariableMetadata, *QueryMeta, error) {
	opts := QueryOptions{}
	if qo != nil {
		opts = *qo
	}
	opts.Prefix = prefix
	return vars.List(&opts)
}

// AcquireLock acquires the lock of a variable and returns the variable with the lock ID.
// Non-empty items are stored, empty items leave the stored ones unchanged. The error is
// ErrLockConflict if the lock has another holder.
func (vars *Variables) AcquireLock(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	return vars.lock(v, "lock-acquire", qo)
}

// ReleaseLock releases the lock with the variable's lock ID.
func (vars *Variables) ReleaseLock(v *Variable, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	return vars.lock(v, "lock-release", qo)
}

func (vars *Variables) lock(v *Variable, op string, qo *WriteOptions) (*Variable, *WriteMeta, error) {
	out := new(Variable)
	meta, err := vars.client.put(variablePath(v.Path)+"?"+op, cleaned(v), out, qo)
	if err != nil {
		return nil, nil, lockConflict(err)
	}
	return out, meta, nil
}

// RenewLock renews the lock with the variable's lock ID for another TTL.
func (vars *Variables) RenewLock(v *Variable, qo *WriteOptions) (*VariableMetadata, *WriteMeta, error) {
	out := new(VariableMetadata)
	meta, err := vars.client.put(variablePath(v.Path)+"?lock-renew", cleaned(v), out, qo)
	if err != nil {
		return nil, nil, lockConflict(err)
	}
	return out, meta, nil
}

func lockConflict(err error) error {
	if StatusCode(err) == http.StatusConflict {
		return ErrLockConflict
	}
	return err
}

// cleaned returns the variable with a normalized path.
func cleaned(v *Variable) *Variable {
	out := *v
	out.Path = strings.Trim(v.Path, " /")
	return &out
}

// variablePath returns the request path of a variable. Slashes in the variable's path are
// not escaped. A leading slash is removed, because agents redirect such requests.
func variablePath(path string) string {
	parts := strings.Split(strings.Trim(path, " /"), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/v1/var/" + strings.Join(parts, "/")
}
