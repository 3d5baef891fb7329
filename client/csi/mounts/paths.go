package mounts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// Names below Dir and below the directory of a plugin.
const (
	mountedName  = "mounted"
	stagingName  = "staging"
	perAllocName = "per-alloc"
)

// dirMode is the mode of all directories: no other user of the node enters them.
const dirMode = 0o700

// maxElement is the longest ID that is a file name as it is.
const maxElement = 200

// hashed begins the file names of other IDs.
const hashed = "id-sha256-"

// element returns the file name for an ID. Servers accept any text as the ID of a volume.
func element(id string) string {
	if id == "" || id == "." || id == ".." || len(id) > maxElement || strings.ContainsAny(id, "/\x00") || strings.HasPrefix(id, hashed) {
		sum := sha256.Sum256([]byte(id))
		return hashed + hex.EncodeToString(sum[:16])
	}
	return id
}

// usage returns the last element of the paths of a use.
func (u Use) usage() string {
	access := "rw"
	if u.ReadOnly {
		access = "ro"
	}
	return element(access + "-" + string(u.AttachmentMode) + "-" + string(u.AccessMode))
}

// staging returns the path of the staged volume, below the directory of the plugin.
func (u Use) staging() string {
	return path.Join(stagingName, element(u.Namespace), element(u.VolumeID), u.usage())
}

// target returns the path of the published volume, below the directory of the plugin.
func (u Use) target() string {
	return path.Join(perAllocName, element(u.AllocID), element(u.VolumeID), u.usage())
}

// bound returns the path of what tasks mount, below Dir.
func (u Use) bound() string {
	sum := sha256.Sum256([]byte(u.record().Key()))
	return path.Join(mountedName, element(u.AllocID), hex.EncodeToString(sum[:16]))
}

// digest identifies mount options. Records have it instead of the flags, which may contain passwords.
func digest(o *nomad.CSIMountOptions) string {
	if o == nil || o.FSType == "" && len(o.MountFlags) == 0 {
		return ""
	}
	h := sha256.New()
	for _, text := range append([]string{o.FSType}, o.MountFlags...) {
		fmt.Fprintf(h, "%d:%s,", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// open opens Dir, and creates it if it does not exist.
func (m *Manager) open() (*safefs.Dir, error) {
	if err := os.MkdirAll(m.cfg.Dir, dirMode); err != nil {
		return nil, err
	}
	return safefs.Open(m.cfg.Dir)
}

// below returns the directory of a plugin relative to Dir.
func (m *Manager) below(root string) (string, error) {
	rel, err := filepath.Rel(m.cfg.Dir, root)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", fmt.Errorf("the directory %s of the plugin is not below %s", root, m.cfg.Dir)
	}
	return rel, nil
}

// parent opens the directory that contains the path name of a plugin, and creates it with create. No part of the path below
// the plugin's directory may be a link or a mount: the plugin could lead the agent elsewhere.
func (m *Manager) parent(root, name string, create func(d *safefs.Dir, name string) error) (*safefs.Dir, error) {
	rel, err := m.below(root)
	if err != nil {
		return nil, err
	}
	top, err := m.open()
	if err != nil {
		return nil, err
	}
	defer top.Close() //nolint:errcheck // a directory
	d, err := m.parentBelow(top, path.Join(rel, path.Dir(name)), create)
	if replaced(err) {
		return nil, fmt.Errorf("the plugin has replaced a directory above %s with a link or a mount: %w", path.Join(root, name), err)
	}
	return d, err
}

// parentBelow is parent, relative to Dir.
func (m *Manager) parentBelow(top *safefs.Dir, name string, create func(d *safefs.Dir, name string) error) (*safefs.Dir, error) {
	if create != nil {
		m.tree.Lock()
		err := create(top, name)
		m.tree.Unlock()
		if err != nil {
			return nil, err
		}
	}
	return top.SubNoXDev(name)
}

// replaced reports whether a directory on a path is a link, a mount or a file.
func replaced(err error) bool {
	return errors.Is(err, safefs.ErrEscape) || errors.Is(err, unix.ENOTDIR)
}

// makeAll creates a directory and those above it. A mount on the way is an error: its server may not answer.
func makeAll(d *safefs.Dir, name string) error {
	made, err := d.MakeAllNoXDev(name, dirMode)
	if err != nil {
		return err
	}
	return made.Close()
}

// makeStaging creates the directory in which a plugin stages a volume.
func (m *Manager) makeStaging(r *state.CSIMount) error {
	d, err := m.parent(r.Root, r.Staging, makeAll)
	if err != nil {
		return fmt.Errorf("create the staging directory: %w", err)
	}
	defer d.Close() //nolint:errcheck // a directory
	if d.Mounted(path.Base(r.Staging)) {
		return nil // by an earlier call; the server of the file system may hang
	}
	made, err := d.Make(path.Base(r.Staging), dirMode)
	if err != nil {
		return fmt.Errorf("create the staging directory: %w", err)
	}
	return made.Close()
}

// removeEmpty removes the directory name below d, and those above it that are empty then, but not those in keep.
func (m *Manager) removeEmpty(d *safefs.Dir, name string, keep ...string) {
	m.tree.Lock()
	defer m.tree.Unlock()
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if slices.Contains(keep, name) {
			return
		}
		above, err := d.SubNoXDev(path.Dir(name))
		if err != nil {
			return
		}
		err = above.RemoveEmpty(path.Base(name))
		above.Close() //nolint:errcheck // a directory
		if err != nil {
			return // in use by another volume, or by the plugin
		}
	}
}
