package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// storage is the storage system. Its directory has:
//
//	lock                   the lock of all instances of the plugin
//	nodes/<id>.json        the nodes
//	volumes/<id>.json      the record of a volume; volumes/<id> is its directory or file
//	snapshots/<id>.json    the record of a snapshot; snapshots/<id> is its content
type storage struct {
	root     string
	capacity int64
}

// volume is the record of a volume.
type volume struct {
	ID, Name        string
	Bytes           int64
	Block           bool
	Snapshot, Clone string // the source of its content
	Zone            string
	Parameters      map[string]string
	Nodes           map[string]bool // where it is attached, and whether that is read-only
}

// snapshot is the record of a snapshot.
type snapshot struct {
	ID, Name, Volume string
	Bytes            int64
	Block            bool
	Created          time.Time
}

// member is the record of a node.
type member struct{ MaxVolumes int64 }

// The kinds of records.
const (
	volumes   = "volumes"
	snapshots = "snapshots"
	nodes     = "nodes"
)

// intercept runs a call under the lock of the storage system.
func (s *storage) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	lock, err := os.OpenFile(filepath.Join(s.root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// addNode adds a node, so that volumes can be attached to it.
func (s *storage) addNode(id string, maxVolumes int64) error {
	for _, kind := range []string{volumes, snapshots, nodes} {
		if err := os.MkdirAll(filepath.Join(s.root, kind), 0o700); err != nil {
			return err
		}
	}
	return s.save(nodes, id, &member{MaxVolumes: maxVolumes})
}

// newID returns the ID of the object with a name: a call that is repeated finds the object of the first one.
func newID(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + "-" + hex.EncodeToString(sum[:10])
}

// path returns the path of the content of an object.
func (s *storage) path(kind, id string) string { return filepath.Join(s.root, kind, id) }

// load reads a record. An object that does not exist is an error with the code NotFound.
func load[T any](s *storage, kind, id string) (*T, error) {
	if id == "" || filepath.Base(id) != id { // a caller may not name a file elsewhere
		return nil, status.Errorf(codes.NotFound, "%s has no %q", kind, id)
	}
	raw, err := os.ReadFile(s.path(kind, id) + ".json")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENAMETOOLONG) {
		return nil, status.Errorf(codes.NotFound, "%s has no %q", kind, id)
	}
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(raw, out)
}

// save writes a record.
func (s *storage) save(kind, id string, record any) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	temporary := s.path(kind, "new")
	if err := os.WriteFile(temporary, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.path(kind, id)+".json")
}

// list reads all records of a kind, sorted by ID.
func list[T any](s *storage, kind string) (out []*T, err error) {
	entries, err := os.ReadDir(filepath.Join(s.root, kind))
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && err == nil {
			var one *T
			one, err = load[T](s, kind, id)
			out = append(out, one)
		}
	}
	return out, err
}

// remove deletes an object. The record is deleted last, so that a call that is repeated finds what remains.
func (s *storage) remove(kind, id string) error {
	if err := os.RemoveAll(s.path(kind, id)); err != nil {
		return err
	}
	return os.Remove(s.path(kind, id) + ".json")
}

// found returns false without an error for an object that does not exist.
func found(err error) (bool, error) {
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	return err == nil, err
}

// page returns the part of a sorted list that a request asks for, and the token of the next part: the last ID.
func page[T any](all []T, id func(T) string, start string, limit int32) (part []T, next string, err error) {
	after, ok := strings.CutPrefix(start, "after:")
	if start != "" && !ok {
		return nil, "", status.Errorf(codes.Aborted, "invalid starting_token %q", start)
	}
	for _, one := range all {
		if id(one) <= after {
			continue
		}
		if limit > 0 && len(part) == int(limit) {
			return part, "after:" + id(part[limit-1]), nil
		}
		part = append(part, one)
	}
	return part, "", nil
}
