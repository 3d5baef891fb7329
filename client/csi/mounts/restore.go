package mounts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Restore reads the uses of an earlier agent.
func (m *Manager) Restore() error {
	stored, err := m.cfg.Store.CSIMounts()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range stored {
		m.uses[r.Key()] = r
	}
	if err != nil {
		// Their mounts belong to no use, and are removed.
		err = fmt.Errorf("read the CSI volumes of the client state: %w", err)
	}
	return err
}

// Leftovers ends the uses of allocations that the node does not have. Run releases them.
func (m *Manager) Leftovers(has func(alloc string) bool) error {
	var errs []error
	for _, r := range m.list() {
		if live(r.State) && !has(r.AllocID) {
			m.cfg.Log.Warn("releasing a CSI volume of an allocation that does not exist", "alloc", r.AllocID, "volume", r.VolumeID)
			errs = append(errs, m.End(r.AllocID))
		}
	}
	return errors.Join(errs...)
}

// sweep unmounts what belongs to no use: mounts of another build, or that a plugin has moved. Their volumes are not
// known, so no plugin is called, and no claim waits for them.
func (m *Manager) sweep() {
	top, err := safefs.Open(m.cfg.Dir)
	if err != nil {
		return // no plugin has run on this node, or the next sweep finds the directory
	}
	defer top.Close() //nolint:errcheck // a directory
	table, err := m.table(top)
	if err != nil {
		m.cfg.Log.Warn("look for CSI mounts without an allocation", "err", err)
		return
	}
	owned := m.owned()
	for i := len(table) - 1; i >= 0; i-- {
		if rel := table[i].rel; ofVolume(rel) && !belongs(rel, owned) && !strings.HasSuffix(rel, deletedSuffix) {
			m.sweepMount(top, rel)
		}
	}
	if err := m.removeUnused(top); err != nil {
		m.cfg.Log.Warn("remove the directories of unmounted CSI volumes", "err", err)
	}
}

// sweepMount unmounts a path if it belongs to no use. No use can get it meanwhile.
func (m *Manager) sweepMount(top *safefs.Dir, rel string) {
	m.tree.Lock()
	defer m.tree.Unlock()
	if belongs(rel, m.owned()) {
		return
	}
	d, err := top.SubNoXDev(path.Dir(rel))
	if errors.Is(err, safefs.ErrEscape) {
		return // it goes with the mount above it, whose server may not answer
	}
	if err == nil {
		err = d.Unmount(path.Base(rel))
		d.Close() //nolint:errcheck // a directory
	}
	m.cfg.Log.Warn("unmounted a CSI volume that no allocation uses, without its plugin", "path", path.Join(m.cfg.Dir, rel), "err", err)
}

// owned returns the paths of the uses, relative to Dir.
func (m *Manager) owned() (out []string) {
	for _, r := range m.list() {
		out = append(out, useOf(r).bound())
		if root, err := m.below(r.Root); err == nil && r.Root != "" {
			out = append(out, path.Join(root, r.Target))
			if r.Staging != "" {
				out = append(out, path.Join(root, r.Staging))
			}
		}
	}
	return out
}

// belongs reports whether a path is one of the owned ones, or below.
func belongs(rel string, owned []string) bool {
	return slices.ContainsFunc(owned, func(o string) bool { return safefs.Within(rel, o) })
}

// ofVolume reports whether a path below Dir is for volumes: plugins may have other mounts in their directories.
func ofVolume(rel string) bool {
	parts := strings.Split(rel, "/") // <type>/<plugin>/<kind>/...
	return parts[0] == mountedName && len(parts) > 1 || len(parts) > 3 && (parts[2] == stagingName || parts[2] == perAllocName)
}

// removeUnused removes what a killed agent has left below "mounted" without a mount: directories, and device nodes.
func (m *Manager) removeUnused(top *safefs.Dir) error {
	all, err := top.SubNoXDev(mountedName)
	if err != nil {
		return unlessMissing(err)
	}
	defer all.Close() //nolint:errcheck // a directory
	allocs, err := all.Names()
	errs := []error{err}
	for _, alloc := range allocs {
		errs = append(errs, m.removeUnusedOf(all, alloc))
	}
	return errors.Join(errs...)
}

func (m *Manager) removeUnusedOf(all *safefs.Dir, alloc string) error {
	m.tree.Lock()
	defer m.tree.Unlock()
	d, err := all.SubNoXDev(alloc)
	if err != nil {
		return unlessMissing(err)
	}
	defer d.Close() //nolint:errcheck // a directory
	names, err := d.Names()
	errs, stays, owned := []error{err}, false, m.owned()
	for _, name := range names {
		if belongs(path.Join(mountedName, alloc, strings.TrimSuffix(name, readsSuffix)), owned) || d.Mounted(name) {
			stays = true
			continue
		}
		errs = append(errs, d.RemoveAll(name))
	}
	if !stays {
		errs = append(errs, all.RemoveEmpty(alloc))
	}
	return errors.Join(errs...)
}

// pluginsName is the directory of the sockets of plugins that run, below Dir.
const pluginsName = "plugins"

// Close ends the sharing of mounts if nothing is mounted and no plugin runs. Run has returned, and so have the runners of
// allocations.
func (m *Manager) Close() {
	top, err := safefs.Open(m.cfg.Dir)
	if err != nil {
		return // it was never shared
	}
	running := false
	if d, err := top.Sub(pluginsName); err == nil {
		names, err := d.Names()
		running = err != nil || len(names) > 0
		d.Close() //nolint:errcheck // a directory
	}
	top.Close() //nolint:errcheck // a directory
	if running {
		return
	}
	if _, err := Unshare(m.cfg.Dir); err != nil { // while volumes are mounted, the next agent needs it
		m.cfg.Log.Warn("unmount the directory of CSI volumes", "err", err)
	}
}

// Clear unmounts all volumes, also those in use, for an agent whose files are removed. Run has returned, and the allocations
// have ended.
func (m *Manager) Clear(ctx context.Context) {
	for _, r := range m.list() {
		if err := m.End(r.AllocID); err != nil {
			m.cfg.Log.Warn("unmount CSI volumes", "err", err)
		}
		limited, cancel := context.WithTimeout(ctx, clearLimit)
		err := m.unmount(limited, r.Key(), byPlugin)
		cancel()
		if err != nil {
			err = m.unmount(ctx, r.Key(), bySelf)
		}
		if err != nil {
			m.cfg.Log.Warn("unmount a CSI volume", "volume", r.VolumeID, "err", err)
		}
	}
	m.mu.Lock()
	m.uses = map[string]*state.CSIMount{}
	m.mu.Unlock()
	m.sweep()
	m.Close()
}
