package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// defaultSecretsMB is the default size of the secrets file system.
const defaultSecretsMB = 1

// TaskConfig configures the directory of a task.
type TaskConfig struct {
	Name      string
	UID, GID  int // of the task's user; -1 for the agent's user
	SecretsMB int // 0 for the default
	// Private denies other users access to local and tmp. It is for tasks that see the host's
	// paths and have their own user.
	Private bool
	// Bound is set if the task gets its directories by mounts. Its user then needs no access to the path
	// of the allocation's directory.
	Bound bool
}

// Task is the directory of one task, accessed through descriptors.
type Task struct {
	name     string
	path     string
	shared   string
	uid, gid int
	memoryMB int         // size of a tmpfs
	dir      *safefs.Dir // <alloc>/<task>
	secrets  *safefs.Dir // the mounted file system
}

// BuildTask opens the directory of a task. It creates and mounts what is missing.
func (d *Dir) BuildTask(cfg TaskConfig) (*Task, error) {
	t := &Task{
		name: cfg.Name, path: filepath.Join(d.path, cfg.Name), shared: d.SharedPath(),
		uid: cfg.UID, gid: cfg.GID, memoryMB: cfg.SecretsMB,
	}
	if cfg.Name == SharedName {
		return nil, fmt.Errorf("build directory of task %q: this is the name of the shared directory", cfg.Name)
	}
	err := t.build(d.dir, cfg)
	if err == nil && cfg.UID > 0 && !cfg.Bound {
		err = d.admit(cfg.UID)
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("build directory of task %q: %w", cfg.Name, err)
	}
	return t, nil
}

func (t *Task) build(alloc *safefs.Dir, cfg TaskConfig) (err error) {
	if t.dir, err = alloc.Make(cfg.Name, stickyMode); err != nil {
		return err
	}
	mode, tmp := fs.FileMode(openMode), stickyMode
	if cfg.Private {
		mode, tmp = 0o700, 0o700
	}
	if err := t.give(LocalName, mode, t.uid, t.gid); err != nil {
		return err
	}
	uid, gid := -1, -1
	if cfg.Private {
		uid, gid = t.uid, t.gid
	}
	if err := t.give(TmpName, tmp, uid, gid); err != nil {
		return err
	}
	if err := t.give(PrivateName, 0o700, -1, -1); err != nil {
		return err
	}
	t.secrets, err = t.memory(SecretsName, cfg.SecretsMB, t.uid, t.gid)
	return err
}

// give creates a directory with a mode and an owner.
func (t *Task) give(name string, mode fs.FileMode, uid, gid int) error {
	dir, err := t.dir.Make(name, mode)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chown(uid, gid)
}

// memory opens a directory of mode 0700, on a tmpfs if the agent can mount one.
func (t *Task) memory(name string, sizeMB, uid, gid int) (*safefs.Dir, error) {
	if os.Geteuid() != 0 {
		return t.dir.Make(name, 0o700)
	}
	if !t.dir.Mounted(name) {
		if err := t.mount(name, sizeMB); err != nil {
			return nil, err
		}
	}
	sub, err := t.dir.Make(name, 0o700)
	if err != nil {
		return nil, err
	}
	err = sub.Chown(uid, gid)
	if err == nil && !sub.Exists(mountMarker) {
		err = sub.Replace(mountMarker, nil, safefs.File{Mode: 0o400, UID: -1, GID: -1})
	}
	if err != nil {
		sub.Close() // the previous error is returned
		return nil, err
	}
	return sub, nil
}

// mount mounts a tmpfs on a directory owned by root.
func (t *Task) mount(name string, sizeMB int) error {
	under, err := t.dir.Make(name, 0o700)
	if err != nil {
		return err
	}
	under.Close() // created, not kept open
	if sizeMB <= 0 {
		sizeMB = defaultSecretsMB
	}
	return t.dir.MountTmpfs(name, safefs.Tmpfs{SizeMB: sizeMB, Mode: 0o700})
}

// Name returns the task's name.
func (t *Task) Name() string { return t.name }

// Path returns <alloc>/<task>.
func (t *Task) Path() string { return t.path }

// SharedPath returns the directory that all tasks of the allocation share.
func (t *Task) SharedPath() string { return t.shared }

// LocalPath returns the host path of NOMAD_TASK_DIR.
func (t *Task) LocalPath() string { return filepath.Join(t.path, LocalName) }

// SecretsPath returns the host path of NOMAD_SECRETS_DIR.
func (t *Task) SecretsPath() string { return filepath.Join(t.path, SecretsName) }

// Secrets returns the open secrets directory. The Task closes it.
func (t *Task) Secrets() *safefs.Dir { return t.secrets }

// Private opens the directory of the agent's files for the task. It is a tmpfs if the agent can
// mount one, and mounted on first use. The caller closes it.
func (t *Task) Private() (*safefs.Dir, error) {
	dir, err := t.memory(PrivateName, t.memoryMB, -1, -1)
	if err != nil {
		return nil, fmt.Errorf("open private directory of task %q: %w", t.name, err)
	}
	return dir, nil
}

// Root returns the open task directory. The Task closes it.
func (t *Task) Root() *safefs.Dir { return t.dir }

// Secret returns the mode and owner of a file that only the task may read.
func (t *Task) Secret() safefs.File { return safefs.File{Mode: 0o600, UID: t.uid, GID: t.gid} }

// Close closes the descriptors. The files stay.
func (t *Task) Close() {
	// Directories opened for reading: closing them loses nothing.
	if t.secrets != nil {
		t.secrets.Close()
	}
	if t.dir != nil {
		t.dir.Close()
	}
}

// ForgetTask is Forget for a task whose directory an earlier agent may have created.
func (d *Dir) ForgetTask(name string) error {
	dir, err := d.dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove secrets of task %q: %w", name, err)
	}
	return (&Task{name: name, dir: dir}).Forget()
}

// Forget removes the task's secrets and closes the directory. It unmounts a tmpfs and empties
// an ordinary directory.
func (t *Task) Forget() error {
	defer t.Close()
	for _, name := range []string{SecretsName, PrivateName} {
		if err := t.removeSecrets(name); err != nil {
			return fmt.Errorf("remove secrets of task %q: %w", t.name, err)
		}
	}
	return nil
}

func (t *Task) removeSecrets(name string) error {
	if t.dir.Mounted(name) {
		return t.dir.Unmount(name)
	}
	dir, err := t.dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not created, or already removed
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	files, err := dir.Names()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := dir.RemoveAll(file); err != nil {
			return err
		}
	}
	return nil
}
