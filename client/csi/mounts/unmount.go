package mounts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// by is who unmounts a volume.
type by int

const (
	byPlugin by = iota // the plugin; the manager only what the plugin has left
	bySelf             // the manager, because no plugin is registered; a file system in use stays
)

// unmount unmounts a use whose allocation has ended. Afterwards the use is detached.
func (m *Manager) unmount(ctx context.Context, key string, who by) error {
	r := m.use(key)
	if r == nil {
		return nil
	}
	leave, err := m.queues.enter(ctx, queuesOf(r.Namespace, r.VolumeID, r.PluginID, r.ExternalID)...)
	if err != nil {
		return fmt.Errorf("wait for another call for the volume: %w", err)
	}
	defer leave()
	if r = m.use(key); r == nil || r.State == detached {
		return nil // by another caller
	}
	if live(r.State) {
		return fmt.Errorf("allocation %s still uses volume %q on this node: it is unmounted when the tasks have ended", r.AllocID, r.VolumeID)
	}
	err = m.undo(ctx, r, who)
	if err == nil {
		_, err = m.move(key, evUnmount, nil)
	}
	if err == nil || who == bySelf || m.firstFailure(key) {
		m.report("Unmount volume", r.VolumeID, err)
	}
	if err == nil {
		m.cfg.Log.Info("unmounted CSI volume", "alloc", r.AllocID, "volume", r.VolumeID, "plugin", r.PluginID)
	}
	return err
}

// firstFailure reports whether no attempt to unmount a use has failed before.
func (m *Manager) firstFailure(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits[key] == ""
}

// undo removes all mounts of a use, in the reverse order. Each step may be repeated.
func (m *Manager) undo(ctx context.Context, r *state.CSIMount, who by) error {
	if err := m.unbind(r); err != nil {
		return err
	}
	plugin, inst, err := m.pluginFor(r, who)
	if err != nil {
		return err
	}
	if plugin != nil {
		if err := plugin.NodeUnpublish(ctx, r.ExternalID, inst.TaskRoot+"/"+r.Target); err != nil {
			return err
		}
	}
	if err := m.clean(r.Root, r.Target, perAllocName); err != nil {
		return fmt.Errorf("unmount the published volume: %w", err)
	}
	if r.Staging == "" || len(m.stagedAt(r.Root, r.Staging)) > 1 {
		return nil // not staged, or still used
	}
	if plugin != nil {
		if err := plugin.NodeUnstage(ctx, r.ExternalID, inst.TaskRoot+"/"+r.Staging); err != nil {
			return err
		}
	}
	if err := m.clean(r.Root, r.Staging, stagingName); err != nil {
		return fmt.Errorf("unmount the staged volume: %w", err)
	}
	return nil
}

// pluginFor returns the plugin that undoes a use, nil if no plugin has to: of an earlier boot nothing is mounted or
// staged, and without a mount or a staged volume there is nothing to undo.
func (m *Manager) pluginFor(r *state.CSIMount, who by) (Plugin, Instance, error) {
	if who == bySelf {
		return nil, Instance{}, nil
	}
	plugin, inst, err := m.cfg.Plugins.Current(r.PluginID)
	if err == nil && inst.Root != r.Root {
		// The type of the plugin has changed, and with it its directory. It does not see the volume.
		inst.TaskRoot = r.TaskRoot
	}
	if errors.Is(err, instances.ErrNotFound) {
		idle, terr := m.idle(r)
		if terr != nil {
			return nil, Instance{}, terr
		}
		if idle {
			return nil, Instance{}, nil
		}
	}
	return plugin, inst, err
}

// idle reports whether a use leaves no work to a plugin.
func (m *Manager) idle(r *state.CSIMount) (bool, error) {
	if r.Boot != m.cfg.Boot {
		return true, nil
	}
	if r.Staging != "" {
		return false, nil // also without a mount, the plugin may have attached something
	}
	there, err := m.isPublished(r)
	return !there, err
}

// unbind removes what tasks have mounted. All of them have ended.
func (m *Manager) unbind(r *state.CSIMount) error {
	bound := useOf(r).bound()
	top, err := m.open()
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // a directory
	dir, err := top.SubNoXDev(path.Dir(bound))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		err = errors.Join(m.remove(dir, bound), dir.RemoveAll(path.Base(bound)+readsSuffix))
		dir.Close() //nolint:errcheck // a directory
	}
	if err != nil {
		return fmt.Errorf("unmount the volume of the tasks: %w", err)
	}
	m.removeEmpty(top, path.Dir(bound))
	return nil
}

// clean unmounts what a plugin has left at a path, and removes the empty directories. The plugin has said that nothing remains,
// or is gone: a file system that is in use is an error, because the volume would still be written to.
func (m *Manager) clean(root, name, kind string) error {
	own, err := m.below(root)
	if err != nil {
		return err
	}
	top, err := m.open()
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // a directory
	dir := path.Join(own, path.Dir(name))
	above, err := top.SubNoXDev(dir)
	if replaced(err) {
		m.cfg.Log.Warn("a CSI plugin has replaced directories of a volume", "path", path.Join(root, name), "err", err)
		if err = uncover(top, dir); err == nil {
			above, err = top.SubNoXDev(dir)
		}
		defer m.sweep() // what it has moved
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return busy(err)
	}
	err = m.remove(above, path.Join(own, name))
	above.Close() //nolint:errcheck // a directory
	if err != nil {
		return err
	}
	m.removeEmpty(top, dir, path.Join(own, kind))
	return nil
}

// uncover removes what a plugin has put in the place of the directory name below dir, or of one above it. No task uses it.
func uncover(dir *safefs.Dir, name string) error {
	at := "."
	for _, part := range strings.Split(name, "/") {
		above, err := dir.SubNoXDev(at)
		if err != nil {
			return err
		}
		err = above.Unmount(part)
		if err == nil && above.Exists(part) {
			var info safefs.Info
			if info, err = above.Lstat(part); err == nil && !info.Mode.IsDir() {
				err = above.Remove(part)
			}
		}
		above.Close() //nolint:errcheck // a directory
		if err != nil {
			return err
		}
		if at = path.Join(at, part); !existsBelow(dir, at) {
			return nil
		}
	}
	return nil
}

func existsBelow(dir *safefs.Dir, name string) bool {
	d, err := dir.SubNoXDev(name)
	if err != nil {
		return false
	}
	return d.Close() == nil
}

// remove unmounts the last element of a path, in the directory dir, and removes it. Usually nothing is mounted below it, so that
// the list of mounts, which is long on a node with many volumes, is not read.
func (m *Manager) remove(dir *safefs.Dir, rel string) error {
	name := path.Base(rel)
	err := dir.UnmountTop(name)
	if err == nil {
		err = dir.RemoveAll(name)
	}
	if errors.Is(err, unix.EBUSY) {
		if err = m.unmountBelow(rel, (*safefs.Dir).UnmountTop); err == nil {
			err = dir.RemoveAll(name)
		}
	}
	return busy(err)
}

// busy adds to an error how to find who uses a file system.
func busy(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: a process on the node still uses it: find it with fuser -vm, and end it", err)
	}
	return err
}

// discard removes the mounts of a use before it is mounted again in another way. Its plugin may not exist any more.
func (m *Manager) discard(r *state.CSIMount) error { return m.undo(context.Background(), r, bySelf) }
