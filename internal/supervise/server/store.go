package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// store is the supervisor's directory on disk.
type store struct {
	dir  string
	hold *os.File // dir, locked: only one supervisor may use it
	next int      // number of the next task
}

// record is the directory of one task.
type record struct {
	dir   string
	tried bool // an earlier supervisor could not adopt the task
}

func openStore(dir string) (*store, []record, error) {
	at, err := runtimeDir(dir)
	if err != nil {
		return nil, nil, err
	}
	s := &store{dir: at}
	if s.hold, err = lockRecords(at); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read task store: %w", err)
	}
	var records []record
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), quarantined)
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s.next = max(s.next, n+1)
		rec := record{dir: filepath.Join(s.dir, name)}
		if name != e.Name() { // it is tried again
			rec.tried = true
			if os.Rename(filepath.Join(s.dir, e.Name()), rec.dir) != nil {
				rec.dir += quarantined
			}
		}
		records = append(records, rec)
	}
	return s, records, nil
}

// lockRecords locks the directory of the records until the process ends or is upgraded. The supervisor of a copied data_dir,
// whose link leads here too, must not use it: the tasks would have two supervisors, and the first to end removes it.
func lockRecords(at string) (*os.File, error) {
	dir, err := os.Open(at)
	if err != nil {
		return nil, fmt.Errorf("lock task store: %w", err)
	}
	err = safefs.Lock(dir, endTimeout)
	if err == nil {
		return dir, nil
	}
	dir.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock task store %s: %w", at, err)
	}
	return nil, fmt.Errorf("another supervisor uses %s (fuser -v shows it): this directory was copied while its tasks ran; "+
		"remove the copy of the link \"tasks\" for a second agent, or end that supervisor: its tasks continue", at)
}

// memoryDirs are tmpfs directories for records. Making a file on a disk costs half a millisecond, a
// start makes five, and no record is valid after a reboot.
var memoryDirs = []string{"/run", "/dev/shm"}

// runtimeDir returns the directory of the records, which dir/tasks links to, or makes one. A link
// to anything but a private directory of ours is replaced.
func runtimeDir(dir string) (string, error) {
	link := filepath.Join(dir, "tasks")
	if at, err := filepath.EvalSymlinks(link); err == nil && isPrivate(at) {
		return at, nil
	}
	if err := os.RemoveAll(link); err != nil {
		return "", fmt.Errorf("replace task store: %w", err)
	}
	if os.Geteuid() == 0 { // systemd removes tmpfs files of other users when they log out
		for _, m := range memoryDirs {
			var fs unix.Statfs_t
			if err := unix.Statfs(m, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
				continue
			}
			at, err := os.MkdirTemp(m, "nomad-supervise-")
			if err != nil {
				continue
			}
			if err := os.Symlink(at, link); err != nil {
				return "", fmt.Errorf("link task store: %w", errors.Join(err, os.Remove(at)))
			}
			return at, nil
		}
	}
	if err := os.Mkdir(link, 0o700); err != nil {
		return "", fmt.Errorf("create task store: %w", err)
	}
	return link, nil
}

// isPrivate reports whether only we can enter the directory.
func isPrivate(dir string) bool {
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	return err == nil && st.Mode == unix.S_IFDIR|0o700 && int(st.Uid) == os.Geteuid()
}

// tidy removes the store if it has no task.
func (s *store) tidy(dir string) {
	if os.Remove(s.dir) == nil {
		os.Remove(filepath.Join(dir, "tasks")) //nolint:errcheck // the next supervisor replaces a dangling link
	}
}

// create makes the directory of a new task, with its pipes unless disabled. The caller serializes.
func (s *store) create() (record, error) {
	r := record{dir: filepath.Join(s.dir, strconv.Itoa(s.next))}
	s.next++
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return r, fmt.Errorf("create task record: %w", err)
	}
	return r, nil
}

func (r record) pipe(stream string) string { return filepath.Join(r.dir, stream) }

// makePipe makes a log pipe. A task of another user can open it through /dev/stdout for writing, as
// its group, but not for reading, which would take output from its log. The supervisor stays the
// owner, or the task could change the mode. The directory's mode protects the path.
func (r record) makePipe(stream string, owner *proc.Owner) error {
	name := r.pipe(stream)
	if err := unix.Mkfifo(name, 0o600); err != nil {
		return fmt.Errorf("make log pipe: %w", err)
	}
	if owner == nil {
		return nil
	}
	if err := unix.Lchown(name, -1, owner.GID); err != nil {
		return fmt.Errorf("give log pipe to gid %d: %w", owner.GID, err)
	}
	if err := unix.Chmod(name, 0o620); err != nil {
		return fmt.Errorf("set mode of log pipe: %w", err)
	}
	return nil
}

// status returns the file of the init of the task's PID namespace.
func (r record) status() string { return filepath.Join(r.dir, "status") }

// makeStatus makes the file to which init writes the program's wait status.
func (r record) makeStatus() (*os.File, error) {
	f, err := openFile(r.status(), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("make wait status file: %w", err)
	}
	return f, nil
}

// waitStatus reads that file; false if init wrote no status.
func (r record) waitStatus() (unix.WaitStatus, bool) {
	f, err := openFile(r.status(), unix.O_RDONLY)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	return tinyinit.ReadStatus(f)
}

// remove removes the record.
func (r record) remove() error {
	for _, name := range []string{"declared", "meta", "status", "exit", "stdout", "stderr"} {
		unix.Unlink(filepath.Join(r.dir, name)) //nolint:errcheck // not every record has each file; other files are removed below
	}
	if unix.Rmdir(r.dir) == nil {
		return nil
	}
	return os.RemoveAll(r.dir)
}

func (r record) writeTask(t *proc.Task) error { return r.write("meta", t) }
func (r record) writeExit(e *proc.Exit) error { return r.write("exit", e) }

func (r record) write(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	tmp := filepath.Join(r.dir, name+".new")
	if err := writeFile(tmp, raw); err != nil {
		return fmt.Errorf("write task record: %w", err)
	}
	if err := unix.Rename(tmp, filepath.Join(r.dir, name)); err != nil {
		return fmt.Errorf("write task record: %w", &fs.PathError{Op: "rename", Path: tmp, Err: err})
	}
	return nil
}

// openFile bypasses package os, which would try to register the file with the poller.
func openFile(name string, flags int) (*os.File, error) {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func writeFile(name string, text []byte) error {
	f, err := openFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// writeDeclared writes the starter's data, before the record refers to it. It never changes.
func (r record) writeDeclared(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	if err := writeFile(r.declaredFile(), raw); err != nil {
		return fmt.Errorf("write task record: %w", err)
	}
	return nil
}

// declared reads that data; nil if there is none.
func (r record) declared() (json.RawMessage, error) {
	raw, err := os.ReadFile(r.declaredFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read task record: %w", err)
	}
	return raw, nil
}

func (r record) declaredFile() string { return filepath.Join(r.dir, "declared") }

// read returns the task of the record, with its exit if known. The task is nil if the record does
// not name it. With an error the task may be incomplete.
func (r record) read() (*proc.Task, error) {
	t := new(proc.Task)
	if err := readJSON(filepath.Join(r.dir, "meta"), t); err != nil {
		return nil, err
	}
	if t.ID == "" {
		return nil, fmt.Errorf("decode %s: the task has no ID", filepath.Join(r.dir, "meta"))
	}
	exit := new(proc.Exit)
	err := readJSON(filepath.Join(r.dir, "exit"), exit)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Exit = exit
	return t, nil
}

// removed reports whether the record no longer exists.
func (r record) removed() bool {
	_, err := os.Lstat(r.dir)
	return errors.Is(err, fs.ErrNotExist)
}

func readJSON(name string, v any) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

// bootID returns the kernel's ID of the current boot.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})
