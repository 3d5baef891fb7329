package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// bind checks what the plugin has published, and binds it to the path that tasks mount. It returns the number of a block
// device, 0 for others. Everything is done with the descriptor that was checked.
func (m *Manager) bind(r *state.CSIMount, inst Instance, propagation uint64) (device uint64, err error) {
	published := path.Join(r.Root, r.Target)
	parent, err := m.parent(r.Root, r.Target, nil)
	if err != nil {
		return 0, err
	}
	defer parent.Close() //nolint:errcheck // a directory
	fd, err := safefs.OpenBeneath(parent.FD(), path.Base(r.Target), unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, fmt.Errorf("the plugin has published nothing at %s: "+notShared, published)
	case err != nil:
		return 0, fmt.Errorf("open what the plugin has published at %s: %w", published, err)
	}
	defer unix.Close(fd) //nolint:errcheck // opened with O_PATH
	kind, err := inspect(parent.FD(), fd)
	if err == nil {
		err = kind.check(useOf(r).block(), inst)
	}
	if err != nil {
		return 0, fmt.Errorf("what the plugin has published at %s %w", published, err)
	}
	return kind.device, m.bindAt(useOf(r), fd, kind, propagation)
}

// notShared explains why a published volume may be missing.
const notShared = "if its log shows a mount, that does not reach the host: the plugin needs the host's mount namespace, or its mount " +
	"propagation (the task of a container needs privileged = true)"

// published is what a plugin has published.
type published struct {
	mode    uint32
	mounted bool
	device  uint64 // number of a block device
}

// inspect returns what is open as fd, in the directory parent.
func inspect(parent, fd int) (published, error) {
	var dir, file unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(parent, "", flags, unix.STATX_MNT_ID, &dir); err != nil {
		return published{}, fmt.Errorf("cannot be compared with its directory: statx: %w", err)
	}
	if err := unix.Statx(fd, "", flags, unix.STATX_TYPE|unix.STATX_MNT_ID, &file); err != nil {
		return published{}, fmt.Errorf("cannot be examined: statx: %w", err)
	}
	p := published{mode: uint32(file.Mode) & unix.S_IFMT, mounted: dir.Mnt_id != file.Mnt_id}
	if p.mode == unix.S_IFBLK {
		p.device = unix.Mkdev(file.Rdev_major, file.Rdev_minor)
	}
	return p, nil
}

// check returns an error for what is not published as the specification requires. A block device is a node or a file
// that is mounted, or a node that the plugin has made. A container without privilege may make the node of any device of the
// host, which it cannot open: for others it would be the device.
func (p published) check(block bool, by Instance) error {
	switch {
	case p.mode == unix.S_IFLNK:
		return errors.New("is a symbolic link")
	case !block && p.mode != unix.S_IFDIR:
		return errors.New("is not a directory, but attachment_mode is \"file-system\"")
	case block && p.mode != unix.S_IFBLK && p.mode != unix.S_IFREG:
		return errors.New("is not a block device, but attachment_mode is \"block-device\"")
	case p.mode != unix.S_IFBLK && !p.mounted:
		return errors.New("is not mounted: " + notShared)
	case !p.mounted && !by.Privileged:
		return errors.New("is the node of a device, made by a task without privilege: mount the node there, which needs " +
			"privileged = true in the task of the plugin")
	}
	return nil
}

// The modes of the nodes of a block device. Only root enters their directory, and drivers show a node to the tasks that mount the
// volume, which have users of their own. For a device, a read-only mount has no effect: a task that may only read gets a node
// that it cannot open for writing.
const (
	nodeWrites = 0o666
	nodeReads  = 0o444
)

// readsSuffix ends the name of the second node.
const readsSuffix = "-reads"

// makeNodes creates the nodes of a block device.
func makeNodes(dir *safefs.Dir, name string, device uint64, readOnly bool) error {
	mode := fs.FileMode(nodeWrites)
	if readOnly {
		mode = nodeReads
	}
	if err := dir.RemoveAll(name + readsSuffix); err != nil {
		return err
	}
	return errors.Join(dir.MakeBlockDevice(name, device, mode), dir.MakeBlockDevice(name+readsSuffix, device, nodeReads))
}

// bindAt makes the open file available at the path of the use below "mounted". A block device gets a node of its own: it has
// the number that was checked, and another owner of it changes nothing on the host.
func (m *Manager) bindAt(u Use, fd int, p published, propagation uint64) error {
	tree := safefs.NoTree
	if p.mode != unix.S_IFBLK {
		var err error
		// The server of the file system may not answer, so no lock is held.
		if tree, err = safefs.CopyTree(fd); err != nil {
			return err
		}
		defer tree.Close()
		if err := tree.Restrict(safefs.TreeAttrs{ReadOnly: u.ReadOnly, Trusted: true, Propagation: propagation}); err != nil {
			return err
		}
	}
	top, err := m.open()
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // a directory
	m.tree.Lock()
	defer m.tree.Unlock()
	dir, err := top.MakeAll(path.Dir(u.bound()), dirMode, -1, -1)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // a directory
	name := path.Base(u.bound())
	if err := dir.Unmount(name); err != nil { // of an earlier attempt; no task has started
		return err
	}
	if err := dir.RemoveAll(name); err != nil {
		return err
	}
	if p.mode == unix.S_IFBLK {
		return makeNodes(dir, name, p.device, u.ReadOnly)
	}
	return attach(dir, name, tree, p.mode)
}

// attach makes the file or directory name, and mounts a tree on it.
func attach(dir *safefs.Dir, name string, tree safefs.Tree, mode uint32) error {
	if mode == unix.S_IFDIR {
		made, err := dir.Make(name, dirMode)
		if err != nil {
			return err
		}
		defer made.Close() //nolint:errcheck // a directory
		return tree.Attach(made.FD())
	}
	if err := dir.Replace(name, nil, safefs.File{Mode: 0o600, UID: -1, GID: -1}); err != nil {
		return err
	}
	fd, err := safefs.OpenBeneath(dir.FD(), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // opened with O_PATH
	return tree.Attach(fd)
}

// Mounted returns the volume of a use that is mounted, also by an earlier agent. It reports false for one that is not, or not
// any more.
func (m *Manager) Mounted(u Use) (Mounted, bool, error) {
	r := m.use(u.record().Key())
	if r == nil || r.State != mounted || r.Boot != m.cfg.Boot {
		return Mounted{}, false, nil
	}
	got, there, err := m.remains(r)
	if err != nil {
		return Mounted{}, false, fmt.Errorf("find the mount of volume %q: %w", u.VolumeID, err)
	}
	return got, there, nil
}

// remains reports whether what the plugin has published, and the bind of it, are where they were.
func (m *Manager) remains(r *state.CSIMount) (got Mounted, there bool, err error) {
	top, err := m.open()
	if err != nil {
		return got, false, err
	}
	defer top.Close() //nolint:errcheck // a directory
	u := useOf(r)
	dir, err := top.SubNoXDev(path.Dir(u.bound()))
	if err != nil {
		return got, false, unlessMissing(err)
	}
	defer dir.Close()          //nolint:errcheck // a directory
	real, err := realPath(top) // the path of Dir may have links, which drivers refuse
	if err != nil {
		return got, false, err
	}
	got = Mounted{Path: path.Join(real, u.bound())}
	if name := path.Base(u.bound()); r.Device != 0 {
		got.Device, got.Reads = true, got.Path+readsSuffix
		return got, isDevice(dir, name, r.Device) && isDevice(dir, name+readsSuffix, r.Device), nil
	}
	if !dir.Mounted(path.Base(u.bound())) {
		return got, false, nil
	}
	there, err = m.isPublished(r)
	return got, there, err
}

// isPublished reports whether something is mounted where the plugin has published a volume.
func (m *Manager) isPublished(r *state.CSIMount) (bool, error) {
	dir, err := m.parent(r.Root, r.Target, nil)
	if err != nil {
		return false, unlessMissing(err)
	}
	defer dir.Close() //nolint:errcheck // a directory
	return dir.Mounted(path.Base(r.Target)), nil
}

// unlessMissing drops the error of a file that does not exist.
func unlessMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// isDevice reports whether the file name in a directory is the node of a block device.
func isDevice(dir *safefs.Dir, name string, device uint64) bool {
	fd, err := safefs.OpenBeneath(dir.FD(), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // opened with O_PATH
	p, err := inspect(dir.FD(), fd)
	return err == nil && p.device == device
}
