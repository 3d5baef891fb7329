package docker

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// points is a directory with mount points, which only root can access. Tasks can replace paths in their
// allocation's directory. So the agent opens such a path, and mounts the open file here while the daemon
// starts the container. The daemon accepts only paths, and its runtime has another mount namespace: it
// cannot mount a descriptor of the agent.
type points struct {
	path string
	mu   sync.Mutex
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
	return safefs.Open(p.path)
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
	for _, name := range names {
		err = errors.Join(err, release(dir, name))
	}
	return err
}

// release removes a mount point.
func release(dir *safefs.Dir, name string) error {
	if err := dir.Unmount(name); err != nil {
		return err
	}
	return dir.RemoveAll(name) // of an empty directory or a file
}

// held are the mounts of a container that is being started.
type held struct {
	points *points
	names  []string
}

// source returns the path by which the daemon mounts an open file, and closes the file.
func (h *held) source(f *os.File) (string, error) {
	defer f.Close()        //nolint:errcheck // opened with O_PATH
	if os.Geteuid() != 0 { // no mounts; the daemon looks the name up again
		return os.Readlink(procPath(f))
	}
	dir, err := h.points.open()
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // a directory
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	name := rand.Text()
	if info.IsDir() {
		var made *safefs.Dir
		if made, err = dir.Make(name, 0o700); err == nil {
			made.Close() //nolint:errcheck // a directory
		}
	} else {
		err = dir.Replace(name, nil, safefs.File{Mode: 0o600, UID: -1, GID: -1})
	}
	if err != nil {
		return "", err
	}
	h.names = append(h.names, name)
	return filepath.Join(h.points.path, name), dir.Bind(int(f.Fd()), name)
}

// Close removes the mounts. Those of the container stay.
func (h *held) Close() error {
	if len(h.names) == 0 {
		return nil
	}
	dir, err := h.points.open()
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // a directory
	for _, name := range h.names {
		err = errors.Join(err, release(dir, name))
	}
	h.names = nil
	return err
}
