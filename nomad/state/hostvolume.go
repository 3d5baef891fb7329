package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var hostVolumes = &table.Table[hostvolume.Volume]{
	Name:   TableHostVolumes,
	Events: true,
	ID:     func(v *hostvolume.Volume) table.Key { return table.KeyOf(v.Namespace, v.ID) },
	Indexes: []table.Index[hostvolume.Volume]{
		{Name: "node", Key: func(v *hostvolume.Volume) table.Key { return table.KeyOf(v.NodeID, v.Name) }},
		{Name: "volume", Key: func(v *hostvolume.Volume) table.Key { return table.KeyOf(v.ID) }},
	},
}

// HostVolume returns the volume, or nil if the namespace has none with the ID.
func (s *Snapshot) HostVolume(ws memdb.WatchSet, namespace, id string) *hostvolume.Volume {
	return hostVolumes.Get(s.tx, ws, table.KeyOf(namespace, id))
}

// HostVolumeByID returns the volume with the ID in any namespace, or nil if there is none.
func (s *Snapshot) HostVolumeByID(id string) *hostvolume.Volume {
	return hostVolumeByID(s.tx, id)
}

func hostVolumeByID(tx table.Reader, id string) *hostvolume.Volume {
	for v := range hostVolumes.By(tx, nil, "volume", table.KeyOf(id)) {
		return v
	}
	return nil
}

// HostVolumes returns every volume, by namespace and ID.
func (s *Snapshot) HostVolumes(ws memdb.WatchSet) iter.Seq[*hostvolume.Volume] {
	return hostVolumes.All(s.tx, ws)
}

// HostVolumesByNode returns the volumes of a node, by name.
func (s *Snapshot) HostVolumesByNode(ws memdb.WatchSet, node string) iter.Seq[*hostvolume.Volume] {
	return hostVolumes.By(s.tx, ws, "node", table.KeyOf(node))
}

// HostVolumeOn returns the volume of a node with the name, or nil if there is none.
func (s *Snapshot) HostVolumeOn(ws memdb.WatchSet, node, name string) *hostvolume.Volume {
	return hostVolumeOn(s.tx, ws, node, name)
}

func hostVolumeOn(tx table.Reader, ws memdb.WatchSet, node, name string) *hostvolume.Volume {
	for v := range hostVolumes.By(tx, ws, "node", table.KeyOf(node, name)) {
		return v
	}
	return nil
}

// HostVolumeUsers returns the allocations of a node that use the volume and that their client has not ended.
func (s *Snapshot) HostVolumeUsers(v *hostvolume.Volume) []*nomad.Allocation {
	return volumeUsers(s.tx, v)
}

func volumeUsers(tx table.Reader, v *hostvolume.Volume) []*nomad.Allocation {
	var out []*nomad.Allocation
	for a := range allocs.By(tx, nil, "node", nodeKey(v.NodeID, false)) {
		if a.Namespace == v.Namespace && a.UsesHostVolume(v.Name) {
			out = append(out, a)
		}
	}
	return out
}

// RegisterHostVolume stores a volume. A volume that its node already reports is ready at once.
func (s *Store) RegisterHostVolume(index uint64, req *message.HostVolumeRegisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.Volume == nil || req.Volume.ID == "" {
			return fmt.Errorf("register host volume: missing volume")
		}
		v := *req.Volume
		v.Allocations = nil
		v.CreateIndex, v.ModifyIndex = index, index
		if namespaces.Get(t, nil, table.KeyOf(v.Namespace)) == nil {
			return fmt.Errorf("namespace %q does not exist", v.Namespace)
		}
		if other := hostVolumeByID(t, v.ID); other != nil && other.Namespace != v.Namespace {
			return fmt.Errorf("volume %s exists in another namespace", v.ID)
		}
		if other := hostVolumeOn(t, nil, v.NodeID, v.Name); other != nil && other.ID != v.ID {
			return fmt.Errorf("volume name already exists on this node: volume %q of node %s has the ID %s", v.Name, v.NodeID, other.ID)
		}
		if old := hostVolumes.Get(t, nil, table.KeyOf(v.Namespace, v.ID)); old != nil {
			if old.NodeID != v.NodeID || old.Name != v.Name {
				return fmt.Errorf("volume %s is %q of node %s, which cannot change", v.ID, old.Name, old.NodeID)
			}
			v.CreateIndex, v.State = old.CreateIndex, old.State
		} else {
			v.State = hostvolume.Pending
		}
		n := nodes.Get(t, nil, table.KeyOf(v.NodeID))
		if n != nil {
			v.State = v.Followed(n)
		}
		hostVolumes.Put(t.Txn, &v)
		t.volumeUsable(n, &v)
		return nil
	})
}

// volumeUsable adds the node of a ready volume to the changes: evaluations that wait for the volume may be retried.
func (t *txn) volumeUsable(n *nomad.Node, v *hostvolume.Volume) {
	if n != nil && v.State == hostvolume.Ready {
		t.changes.Nodes = append(t.changes.Nodes, n)
	}
}

// DeleteHostVolume removes a volume that no allocation uses, and its claims.
func (s *Store) DeleteHostVolume(index uint64, req *message.HostVolumeDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		v := hostVolumes.Get(t, nil, table.KeyOf(req.Namespace, req.VolumeID))
		if v == nil {
			return fmt.Errorf("no such volume: %s", req.VolumeID)
		}
		var users []string
		for _, a := range volumeUsers(t, v) {
			users = append(users, a.ID)
		}
		if len(users) > 0 {
			return fmt.Errorf("volume %s in use by allocations: %v", v.ID, users)
		}
		t.dropVolume(v)
		return nil
	})
}

// dropVolume removes a volume and its claims.
func (t *txn) dropVolume(v *hostvolume.Volume) {
	hostVolumes.Delete(t.Txn, v)
	for _, c := range slices.Collect(volumeClaims.By(t, nil, "volume", table.KeyOf(v.ID))) {
		volumeClaims.Delete(t.Txn, c)
	}
}

// followVolumes updates the states of the volumes of a node after a change of the node.
func (t *txn) followVolumes(n *nomad.Node) {
	for _, old := range slices.Collect(hostVolumes.By(t, nil, "node", table.KeyOf(n.ID))) {
		if state := old.Followed(n); state != old.State {
			v := *old
			v.State, v.ModifyIndex = state, t.Index
			hostVolumes.Put(t.Txn, &v)
		}
	}
}

// dropVolumesOf removes the volumes of a removed node if the node deletes them too. Others remain, with an unknown node.
func (t *txn) dropVolumesOf(n *nomad.Node) {
	if !n.GCVolumesOnNodeGC {
		return
	}
	for _, v := range slices.Collect(hostVolumes.By(t, nil, "node", table.KeyOf(n.ID))) {
		t.dropVolume(v)
	}
}
