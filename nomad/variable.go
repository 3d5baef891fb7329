package nomad

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The operations on a variable.
const (
	VarOpSet         VarOp = "set"
	VarOpDelete      VarOp = "delete"
	VarOpDeleteCAS   VarOp = "delete-cas"
	VarOpCAS         VarOp = "cas"
	VarOpLockAcquire VarOp = "lock-acquire"
	VarOpLockRelease VarOp = "lock-release"
)

// The results of an operation on a variable.
const (
	VarOpResultOk       VarOpResult = "ok"
	VarOpResultConflict VarOpResult = "conflict"
	VarOpResultRedacted VarOpResult = "conflict-redacted"
	VarOpResultError    VarOpResult = "error"
)

// The limits of variables.
const (
	MaxVariableSize     = 64 << 10 // total bytes of names and values
	MinVariableLockTTL  = 10 * time.Second
	MaxVariableLockTTL  = 24 * time.Hour
	DefaultVariableLock = 15 * time.Second // default TTL and delay of a lock
)

// The variable paths with a reserved meaning. All begin with VariablesReserved.
const (
	VariablesReserved     = "nomad/"
	VariablesJobs         = "nomad/jobs"
	variablesJobTemplates = "nomad/job-templates/"
)

// VarOp is an operation on a variable.
type VarOp string

// Deletes reports whether the operation removes the variable.
func (o VarOp) Deletes() bool { return o == VarOpDelete || o == VarOpDeleteCAS }

// Stores reports whether the operation requires items.
func (o VarOp) Stores() bool { return o == VarOpSet || o == VarOpCAS }

// VarOpResult is the result of an operation.
type VarOpResult string

// VariableMetadata is the part of a variable that is not encrypted. Times are in Unix nanoseconds.
type VariableMetadata struct {
	Namespace   string
	Path        string
	Lock        *VariableLock
	CreateIndex uint64
	CreateTime  int64
	ModifyIndex uint64
	ModifyTime  int64
}

// LockID returns the ID of the lock that holds the variable, or "" if it is not locked.
func (m *VariableMetadata) LockID() string {
	if m.Lock == nil {
		return ""
	}
	return m.Lock.ID
}

// VariableLock restricts writes to a variable to the holder of the lock. It lasts for TTL unless renewed. After that, nobody
// else can acquire it during LockDelay.
type VariableLock struct {
	ID        string
	TTL       time.Duration
	LockDelay time.Duration
}

// VariableData contains the encrypted items of a variable and the ID of the root key that decrypts them.
type VariableData struct {
	Data  []byte
	KeyID string
}

// VariableEncrypted is a variable in the form stored in state and the log.
type VariableEncrypted struct {
	VariableMetadata
	VariableData
}

// VariableItems are the names and values of a variable. They do not print.
type VariableItems map[string]string

// Size returns the total bytes of all names and values.
func (i VariableItems) Size() int {
	n := 0
	for name, value := range i {
		n += len(name) + len(value)
	}
	return n
}

// String returns the number of items only.
func (i VariableItems) String() string { return fmt.Sprintf("%d items", len(i)) }

// GoString returns the result of String, so that %#v does not print values.
func (i VariableItems) GoString() string { return i.String() }

// VariableDecrypted is a variable in the form for callers with read access.
type VariableDecrypted struct {
	VariableMetadata
	Items VariableItems
}

// VariablesQuota is the total size, in bytes, of a namespace's variables in state.
type VariablesQuota struct {
	Namespace   string
	Size        int64
	CreateIndex uint64
	ModifyIndex uint64
}

// variablePath matches the valid characters and length of a variable path.
var variablePath = regexp.MustCompile(`^[a-zA-Z0-9-_~/]{1,128}$`)

// CheckVariablePath returns an error for an invalid variable path.
func CheckVariablePath(path string) error {
	switch {
	case path == "":
		return Errorf(400, "missing variable path")
	case !variablePath.MatchString(path):
		return Errorf(400, "invalid path %q: use at most 128 letters, digits, '-', '_', '~' and '/'", path)
	case path == "nomad", path == VariablesReserved:
		return Errorf(400, "path %q is reserved: job variables are below %q", path, VariablesJobs)
	case !strings.HasPrefix(path, VariablesReserved), path == VariablesJobs, strings.HasPrefix(path, VariablesJobs+"/"), path == "nomad/sentinel":
		return nil
	}
	if name, ok := strings.CutPrefix(path, variablesJobTemplates); ok && name != "" && !strings.Contains(name, "/") {
		return nil
	}
	return Errorf(400, `path %q is reserved: below "nomad/" only "nomad/jobs", paths below it and "nomad/job-templates/<name>" are allowed`, path)
}

// CheckItems returns an error for invalid items.
func (i VariableItems) CheckItems() error {
	switch size := i.Size(); {
	case len(i) == 0:
		return Errorf(400, "variable missing required Items object") // tools compare the text
	case size > MaxVariableSize:
		return Errorf(400, "the items of the variable have %d bytes: the limit is %d, so split the variable", size, MaxVariableSize)
	}
	return nil
}

// Fill sets the defaults of a requested lock and rejects values out of range.
func (l *VariableLock) Fill() error {
	if l.TTL == 0 {
		l.TTL = DefaultVariableLock
	}
	if l.LockDelay == 0 {
		l.LockDelay = DefaultVariableLock
	}
	switch {
	case l.TTL < MinVariableLockTTL || l.TTL > MaxVariableLockTTL:
		return Errorf(400, "lock TTL is %v: it must be between %v and %v", l.TTL, MinVariableLockTTL, MaxVariableLockTTL)
	case l.LockDelay < 0 || l.LockDelay > MaxVariableLockTTL:
		return Errorf(400, "lock delay is %v: it must be between 0 and %v", l.LockDelay, MaxVariableLockTTL)
	}
	return nil
}

// wireLock is the JSON form of a lock. Durations are strings or nanoseconds.
type wireLock struct {
	ID             string
	TTL, LockDelay any
}

// UnmarshalJSON accepts durations as a duration string such as "15s" or as a number of nanoseconds.
func (l *VariableLock) UnmarshalJSON(text []byte) error {
	var w wireLock
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	l.ID = w.ID
	for name, to := range map[string]*time.Duration{"TTL": &l.TTL, "LockDelay": &l.LockDelay} {
		from := w.TTL
		if name == "LockDelay" {
			from = w.LockDelay
		}
		switch v := from.(type) {
		case nil:
			*to = 0
		case float64:
			*to = time.Duration(v)
		case string:
			d, err := time.ParseDuration(v)
			if v != "" && err != nil {
				return fmt.Errorf("lock %s: %w", name, err)
			}
			*to = d
		default:
			return fmt.Errorf(`lock %s must be a duration such as "15s"`, name)
		}
	}
	return nil
}
