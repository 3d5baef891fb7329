package state

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// bucketHostVolumes holds the dynamic host volumes of the node by ID.
var bucketHostVolumes = path{[]byte("host_volumes_to_create")}

// bucketHostVolumePaths holds the paths of the configured host volumes.
var bucketHostVolumePaths = path{[]byte("host_volume_paths")}

// PutHostVolume stores a volume.
func (db *DB) PutHostVolume(v *message.ClientHostVolumeState) error {
	return db.putValue(bucketHostVolumes, []byte(v.ID), v)
}

// DeleteHostVolume removes a volume. One that does not exist is not an error.
func (db *DB) DeleteHostVolume(id string) error {
	return db.w.put(func(tx *bolt.Tx) error {
		b := bucketHostVolumes.open(tx)
		if b == nil {
			return nil
		}
		return b.Delete([]byte(id))
	})
}

// HostVolumes returns the stored volumes by ID.
func (db *DB) HostVolumes() (out []*message.ClientHostVolumeState, err error) {
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := bucketHostVolumes.open(tx)
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, raw []byte) error {
			v := new(message.ClientHostVolumeState)
			if err := codec.Decode(raw, v); err != nil {
				return fmt.Errorf("read host volume %s: %w", key, err)
			}
			v.ID = string(key)
			out = append(out, v)
			return nil
		})
	})
	return out, err
}

// HostVolumePath is the path of a configured host volume at the last start of the agent.
type HostVolumePath struct {
	Configured string
	Real       string // without links
}

// keyHostVolumePaths has the paths of all configured host volumes, by name.
var keyHostVolumePaths = []byte("paths")

// PutHostVolumePaths stores the paths of the configured host volumes, by name.
func (db *DB) PutHostVolumePaths(paths map[string]HostVolumePath) error {
	return db.putValue(bucketHostVolumePaths, keyHostVolumePaths, paths)
}

// HostVolumePaths returns the stored paths of the configured host volumes, by name.
func (db *DB) HostVolumePaths() (out map[string]HostVolumePath, err error) {
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := bucketHostVolumePaths.open(tx)
		if b == nil {
			return nil
		}
		if raw := b.Get(keyHostVolumePaths); raw != nil {
			if err := codec.Decode(raw, &out); err != nil {
				return fmt.Errorf("read the paths of the host volumes: %w", err)
			}
		}
		return nil
	})
	return out, err
}
