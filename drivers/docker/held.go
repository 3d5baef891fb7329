package docker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// points is a directory with mount points, which only root can access. Tasks can replace paths in their
// allocation's directory and in volumes. So the agent opens each source of a bind mount, and mounts the
// open file here while the daemon starts the container. The daemon accepts only paths, and its runtime
// has another mount namespace: it cannot mount a descriptor of the agent.
//
//	open ─▶ check ─▶ detached copy ─▶ nosuid, nodev, read-only ─▶ mount point ─▶ start ─▶ unmounted
//	                                                                  └─ the agent ends ─▶ clean ─┘
//
// The runtime binds the mount point into the container's own mount namespace. That mount keeps the
// attributes, and stays when the mount point is removed. So a start of the agent removes every mount
// point that it finds, also while containers run.
type points struct {
	path  string
	mu    sync.Mutex
	stale []string // unmounted mount points that could not be removed
}

// open opens the directory, which the first call creates.
func (p *points) open() (*safefs.Dir, error) {
	if p.path == "" {
		return nil, errors.New("the driver has no directory for mount points")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := os.MkdirAll(p.path, 0o700); err != nil {
		return nil, err
	}
	dir, err := safefs.Open(p.path)
	if err != nil {
		return nil, err
	}
	if err := onlyRoot(dir); err != nil {
		dir.Close() //nolint:errcheck // a directory
		return nil, err
	}
	return dir, nil
}

// onlyRoot returns an error if others than root can enter a directory.
func onlyRoot(dir *safefs.Dir) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir.FD(), &st); err != nil {
		return err
	}
	if st.Uid != 0 || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s must belong to root with the mode 0700: it has the owner %d and the mode %#o: remove it", dir.Name(), st.Uid,
			st.Mode&0o7777)
	}
	return nil
}

// clean removes the mounts that an earlier agent has left.
func (p *points) clean() error {
	dir, err := safefs.Open(p.path)
	if p.path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // a directory
	names, err := dir.Names()
	if err != nil {
		return err
	}
	busy, err := releaseAll(dir, names)
	p.addStale(busy)
	return err
}

// sharedPrefix begins the names of mount points whose mounts are shared with the original.
const sharedPrefix = "shared-"

// release removes a mount point.
func release(dir *safefs.Dir, name string) error {
	if strings.HasPrefix(name, sharedPrefix) {
		if err := dir.Isolate(name); err != nil {
			return err
		}
	}
	if err := dir.Unmount(name); err != nil {
		return err
	}
	return dir.RemoveAll(name) // of an empty directory or a file
}

// reservation is the mounts of a container that is being started.
type reservation struct {
	points *points
	names  []string
}

// asRoot reports whether the agent can mount.
func asRoot() bool { return os.Geteuid() == 0 }

// enforces reports whether the mount point itself is read-only if b is. The daemon cannot set an SELinux
// label on a read-only mount.
func (h *reservation) enforces(b *bind) bool { return asRoot() && b.label == "" }

// source returns the path by which the daemon mounts an open file, and closes the file.
func (h *reservation) source(f *os.File, b *bind) (string, error) {
	defer f.Close() //nolint:errcheck // opened with O_PATH
	if !asRoot() {  // no mounts; the daemon looks the name up again
		return os.Readlink(files.ProcPath(f))
	}
	dir, err := h.points.open()
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // a directory
	name := rand.Text()
	attrs := safefs.TreeAttrs{ReadOnly: b.readOnly, WritableTop: b.label != "", Trusted: b.trusted, Propagation: unix.MS_PRIVATE}
	switch b.propagation {
	case mount.PropagationSlave, mount.PropagationRSlave:
		attrs.Propagation = unix.MS_SLAVE
	case mount.PropagationShared, mount.PropagationRShared:
		attrs.Propagation, name = 0, sharedPrefix+name
	}
	if err := makePoint(dir, name, f); err != nil {
		return "", err
	}
	h.names = append(h.names, name)
	return filepath.Join(h.points.path, name), dir.BindTree(int(f.Fd()), name, attrs)
}

// makePoint creates a mount point for a file: a directory for a directory, and a file for others.
func makePoint(dir *safefs.Dir, name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return dir.Replace(name, nil, safefs.File{Mode: 0o600, UID: -1, GID: -1})
	}
	made, err := dir.Make(name, 0o700)
	if err != nil {
		return err
	}
	return made.Close()
}

// Close removes the mounts. Those of the container stay.
func (h *reservation) Close() error {
	if len(h.names) == 0 {
		return nil
	}
	dir, err := h.points.open()
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // a directory
	slices.Reverse(h.names)
	busy, err := releaseAll(dir, append(h.names, h.points.takeStale()...))
	h.points.addStale(busy)
	h.names = nil
	return err
}

// releaseAll removes mount points. It returns those that are unmounted, but are in a copy of another
// mount: in that of a directory around points, for the start of another task.
func releaseAll(dir *safefs.Dir, names []string) (busy []string, err error) {
	for _, name := range names {
		one := release(dir, name)
		if errors.Is(one, unix.EBUSY) && !dir.Mounted(name) {
			busy = append(busy, name)
			continue
		}
		err = errors.Join(err, one)
	}
	return busy, err
}

func (p *points) takeStale() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stale
	p.stale = nil
	return out
}

func (p *points) addStale(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = append(p.stale, names...)
}
