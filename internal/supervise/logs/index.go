package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// index is the supervisor's record of the log files of one task, shared by the rotators of both
// streams. It is written once when the collection of logs begins, and then at each rotation.
type index struct {
	root, task string

	mu      sync.Mutex
	files   proc.LogIndex
	begun   bool // set writes
	pending bool // set has not written yet
}

// openIndex reads the index of the logs. With inherit, the files of a task without an index are
// taken from the directory: a supervisor of a version without indexes started it.
func openIndex(l proc.Logs, inherit Inheritance) (*index, error) {
	x := &index{root: l.Root, task: l.Name}
	root, err := x.openRoot()
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	x.files, err = proc.ReadLogIndex(root, l.Name)
	if !errors.Is(err, unix.ENOENT) {
		return x, err
	}
	x.files = proc.LogIndex{}
	if inherit == InheritFiles {
		x.files, err = findFiles(l)
		x.pending = true
		return x, err
	}
	return x, nil
}

// Inheritance states whether a task without an index has log files.
type Inheritance int

const (
	InheritNothing Inheritance = 0 // first start
	InheritFiles   Inheritance = 1 // started by a supervisor of an earlier version
)

// InheritAtStart returns what a starting task may inherit. If the supervisor is root, the owner of
// a file proves that it made the file.
func InheritAtStart() Inheritance {
	if os.Geteuid() == 0 {
		return InheritFiles
	}
	return InheritNothing
}

func (x *index) openRoot() (int, error) {
	fd, err := unix.Open(x.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open log root %s: %w", x.root, err)
	}
	return fd, nil
}

// findFiles lists the log files of a task that exist in their directory.
func findFiles(l proc.Logs) (proc.LogIndex, error) {
	dir, err := openDir(l)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list log directory: %w", err)
	}
	out := proc.LogIndex{}
	for _, stream := range proc.Streams {
		out[stream] = proc.FindLogs(int(dir.Fd()), names, l.Name+"."+stream)
	}
	return out, nil
}

// of returns the files of a stream, oldest first.
func (x *index) of(stream string) []proc.LogFile {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.files[stream])
}

// set replaces the files of a stream.
func (x *index) set(stream string, files []proc.LogFile) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := maps.Clone(x.files)
	next[stream] = files
	if x.begun {
		if err := x.write(next); err != nil {
			return fmt.Errorf("write log index of %s: %w", x.task, err)
		}
	}
	x.files, x.pending = next, !x.begun
	return nil
}

// begin writes the files that were set so far; after that set writes immediately.
func (x *index) begin() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pending {
		if err := x.write(x.files); err != nil {
			return fmt.Errorf("write log index of %s: %w", x.task, err)
		}
	}
	x.begun, x.pending = true, false
	return nil
}

// write replaces the file atomically.
func (x *index) write(files proc.LogIndex) error {
	raw, err := json.Marshal(files)
	if err != nil {
		return err
	}
	at, err := x.openRoot()
	if err != nil {
		return err
	}
	defer unix.Close(at)
	name := proc.LogIndexName(x.task)
	temp := name + ".new"
	if err := unix.Unlinkat(at, temp, 0); err != nil && err != unix.ENOENT {
		return err
	}
	fd, err := unix.Openat(at, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return unix.Renameat(at, temp, at, name)
}
