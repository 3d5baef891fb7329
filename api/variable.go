package api

import (
	"encoding/json"
	"maps"
)

// DefaultLockTTL is the default TTL of a lock.
const DefaultLockTTL = "15s"

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
