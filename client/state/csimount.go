package state

import (
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// bucketCSIMounts has the CSI volumes of allocations: a key for each use, CSIMount.Key.
var bucketCSIMounts = path{[]byte("csi_mounts")}

// CSIMount is the use of a CSI volume by an allocation. It stays when its allocation is deleted, until the volume is
// unmounted.
type CSIMount struct {
	AllocID        string
	Namespace      string
	VolumeID       string
	ReadOnly       bool
	AccessMode     nomad.VolumeAccessMode
	AttachmentMode nomad.VolumeAttachmentMode
	State          string // see client/csi/mounts

	// Known since the claim:
	ExternalID string // the ID that the storage system has
	PluginID   string
	Options    string // a digest of the mount options, "" for none
	// Root is the host's directory of the plugin, and TaskRoot is its path in the plugin. The paths of Staging and
	// Target are relative to both. Staging is "" without that step.
	Root, TaskRoot  string
	Staging, Target string
	Boot            string // ID of the boot in which it was mounted
	Device          uint64 // number of a block device, 0 for a file system
}

// Key returns the key of the use: <allocation>/<namespace>/<rw or ro>/<attachment mode>/<access mode>/<volume>.
func (m *CSIMount) Key() string {
	access := "rw"
	if m.ReadOnly {
		access = "ro"
	}
	return strings.Join([]string{m.AllocID, m.Namespace, access, string(m.AttachmentMode), string(m.AccessMode), m.VolumeID}, "/")
}

// PutCSIMount stores a use.
func (db *DB) PutCSIMount(m *CSIMount) error {
	return db.putValue(bucketCSIMounts, []byte(m.Key()), m)
}

// DeleteCSIMount removes a use. One that does not exist is not an error.
func (db *DB) DeleteCSIMount(key string) error {
	return db.w.put(func(tx *bolt.Tx) error {
		b := bucketCSIMounts.open(tx)
		if b == nil {
			return nil
		}
		return b.Delete([]byte(key))
	})
}

// CSIMounts returns the stored uses. Those that cannot be read are left out, and the error names them.
func (db *DB) CSIMounts() (out []*CSIMount, err error) {
	var errs []error
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := bucketCSIMounts.open(tx)
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, raw []byte) error {
			m := new(CSIMount)
			err := codec.Decode(raw, m)
			if err == nil && m.Key() != string(key) {
				err = errors.New("it is of another use")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("read CSI volume %q: %w", key, err))
				return nil
			}
			out = append(out, m)
			return nil
		})
	})
	return out, errors.Join(append(errs, err)...)
}
