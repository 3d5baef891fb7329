// Package variable defines variables: encrypted items under a path of a namespace, and locks on them.
//
//	Decrypted ──package keyring encrypts──▶ Encrypted (state, log, snapshots)
//	   ▲                                        │
//	   └──────────package keyring decrypts──────┘
//
// Both have Metadata, which is never encrypted. Items do not print. A lock belongs to a variable: package locks ends it when
// its holder does not renew it. CheckPath has the reserved paths. Package endpoint/variables decides who may read and write.
//
// The package keeps no state and starts no goroutine.
package variable

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// The operations on a variable.
const (
	OpSet         Op = "set"
	OpDelete      Op = "delete"
	OpDeleteCAS   Op = "delete-cas"
	OpCAS         Op = "cas"
	OpLockAcquire Op = "lock-acquire"
	OpLockRelease Op = "lock-release"
)

// The results of an operation on a variable.
const (
	ResultOk       Result = "ok"
	ResultConflict Result = "conflict"
	ResultRedacted Result = "conflict-redacted"
	ResultError    Result = "error"
)

// The limits of variables.
const (
	MaxSize     = 64 << 10 // total bytes of names and values
	MinLockTTL  = 10 * time.Second
	MaxLockTTL  = 24 * time.Hour
	DefaultLock = 15 * time.Second // default TTL and delay of a lock
)

// The variable paths with a reserved meaning. All begin with Reserved.
const (
	Reserved     = "nomad/"
	Jobs         = "nomad/jobs"
	jobTemplates = "nomad/job-templates/"
)

// Op is an operation on a variable.
type Op string

// Deletes reports whether the operation removes the variable.
func (o Op) Deletes() bool { return o == OpDelete || o == OpDeleteCAS }

// Stores reports whether the operation requires items.
func (o Op) Stores() bool { return o == OpSet || o == OpCAS }

// Result is the result of an operation.
type Result string

// Metadata is the part of a variable that is not encrypted. Times are in Unix nanoseconds.
type Metadata struct {
	Namespace   string
	Path        string
	Lock        *Lock
	CreateIndex uint64
	CreateTime  int64
	ModifyIndex uint64
	ModifyTime  int64
}

// LockID returns the ID of the lock that holds the variable, or "" if it is not locked.
func (m *Metadata) LockID() string {
	if m.Lock == nil {
		return ""
	}
	return m.Lock.ID
}

// Lock restricts writes to a variable to the holder of the lock. It lasts for TTL unless renewed. After that, nobody
// else can acquire it during LockDelay.
type Lock struct {
	ID        string
	TTL       time.Duration
	LockDelay time.Duration
}

// Ciphertext contains the encrypted items of a variable and the ID of the root key that decrypts them.
type Ciphertext struct {
	Data  []byte
	KeyID string
}

// Encrypted is a variable in the form stored in state and the log.
type Encrypted struct {
	Metadata
	Ciphertext
}

// Items are the names and values of a variable. They do not print.
type Items map[string]string

// Size returns the total bytes of all names and values.
func (i Items) Size() int {
	n := 0
	for name, value := range i {
		n += len(name) + len(value)
	}
	return n
}

// String returns the number of items only.
func (i Items) String() string { return fmt.Sprintf("%d items", len(i)) }

// GoString returns the result of String, so that %#v does not print values.
func (i Items) GoString() string { return i.String() }

// Decrypted is a variable in the form for callers with read access.
type Decrypted struct {
	Metadata
	Items Items
}

// Quota is the total size, in bytes, of a namespace's variables in state.
type Quota struct {
	Namespace   string
	Size        int64
	CreateIndex uint64
	ModifyIndex uint64
}

// validPath matches the valid characters and length of a variable path.
var validPath = pattern.Lazy(`^[a-zA-Z0-9-_~/]{1,128}$`)

// CheckPath returns an error for an invalid variable path.
func CheckPath(path string) error {
	switch {
	case path == "":
		return apierror.Errorf(400, "missing variable path")
	case !validPath().MatchString(path):
		return apierror.Errorf(400, "invalid path %q: use at most 128 letters, digits, '-', '_', '~' and '/'", path)
	case path == "nomad", path == Reserved:
		return apierror.Errorf(400, "path %q is reserved: job variables are below %q", path, Jobs)
	case !strings.HasPrefix(path, Reserved), path == Jobs, strings.HasPrefix(path, Jobs+"/"), path == "nomad/sentinel":
		return nil
	}
	if name, ok := strings.CutPrefix(path, jobTemplates); ok && name != "" && !strings.Contains(name, "/") {
		return nil
	}
	return apierror.Errorf(400, `path %q is reserved: below "nomad/" only "nomad/jobs", paths below it and `+
		`"nomad/job-templates/<name>" are allowed`, path)
}

// Check returns an error for invalid items.
func (i Items) Check() error {
	switch size := i.Size(); {
	case len(i) == 0:
		return apierror.Errorf(400, "variable missing required Items object") // tools compare the text
	case size > MaxSize:
		return apierror.Errorf(400, "the items of the variable have %d bytes: the limit is %d, so split the variable", size, MaxSize)
	}
	return nil
}

// Fill sets the defaults of a requested lock and rejects values out of range.
func (l *Lock) Fill() error {
	if l.TTL == 0 {
		l.TTL = DefaultLock
	}
	if l.LockDelay == 0 {
		l.LockDelay = DefaultLock
	}
	switch {
	case l.TTL < MinLockTTL || l.TTL > MaxLockTTL:
		return apierror.Errorf(400, "lock TTL is %v: it must be between %v and %v", l.TTL, MinLockTTL, MaxLockTTL)
	case l.LockDelay < 0 || l.LockDelay > MaxLockTTL:
		return apierror.Errorf(400, "lock delay is %v: it must be between 0 and %v", l.LockDelay, MaxLockTTL)
	}
	return nil
}

// wireLock is the JSON form of a lock. Durations are strings or nanoseconds.
type wireLock struct {
	ID             string
	TTL, LockDelay any
}

// UnmarshalJSON accepts durations as a duration string such as "15s" or as a number of nanoseconds.
func (l *Lock) UnmarshalJSON(text []byte) error {
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
