package state

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
)

// bucketCSIInstances holds the instances of CSI plugins on the node.
var bucketCSIInstances = path{[]byte("csi_instances")}

// CSIInstance is an instance of a CSI plugin: a task of an allocation that listens on a socket.
type CSIInstance struct {
	Kind     string // csi-controller or csi-node
	PluginID string
	AllocID  string
	Provider string
	Version  string
	// SocketDir and SocketName are the directory of the socket and its name there.
	SocketDir, SocketName string
	// Root is the directory of the plugin's volumes on the host. TaskRoot is its path as the task sees it.
	Root, TaskRoot string
	Privileged     bool // it may do on the node what root may
	Updated        time.Time
}

// csiInstanceKey is the key of an instance. IDs have no zero byte.
func csiInstanceKey(kind, plugin, alloc string) []byte {
	return []byte(kind + "\x00" + plugin + "\x00" + alloc)
}

// PutCSIInstance stores an instance.
func (db *DB) PutCSIInstance(i *CSIInstance) error {
	return db.putValue(bucketCSIInstances, csiInstanceKey(i.Kind, i.PluginID, i.AllocID), i)
}

// DeleteCSIInstance removes an instance. One that does not exist is not an error.
func (db *DB) DeleteCSIInstance(kind, plugin, alloc string) error {
	return db.w.put(func(tx *bolt.Tx) error {
		b := bucketCSIInstances.open(tx)
		if b == nil {
			return nil
		}
		return b.Delete(csiInstanceKey(kind, plugin, alloc))
	})
}

// CSIInstances returns the stored instances. Those that cannot be read are left out, and the error names them.
func (db *DB) CSIInstances() (out []*CSIInstance, err error) {
	var errs []error
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := bucketCSIInstances.open(tx)
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, raw []byte) error {
			i := new(CSIInstance)
			if err := codec.Decode(raw, i); err != nil {
				errs = append(errs, fmt.Errorf("read the instance %q of a CSI plugin: %w", key, err))
				return nil
			}
			out = append(out, i)
			return nil
		})
	})
	return out, errors.Join(append(errs, err)...)
}
