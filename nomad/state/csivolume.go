package state

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var csiVolumes = &table.Table[csi.Volume]{
	Name:   TableCSIVolumes,
	Events: true,
	ID:     func(v *csi.Volume) table.Key { return table.KeyOf(v.Namespace, v.ID) },
	Indexes: []table.Index[csi.Volume]{
		{Name: "plugin_id", Key: func(v *csi.Volume) table.Key { return table.KeyOf(v.PluginID) }},
		{Name: "node_id", Keys: claimingNodes},
		{Name: "key_id", Key: func(v *csi.Volume) table.Key {
			if v.Sealed == nil {
				return nil
			}
			return table.Optional(v.Sealed.KeyID)
		}},
	},
}

// CSIVolume returns the volume as it is stored, or nil if there is none.
func (s *Snapshot) CSIVolume(ws memdb.WatchSet, namespace, id string) *csi.Volume {
	return csiVolumes.Get(s.tx, ws, table.KeyOf(namespace, id))
}

// CSIVolumes returns every volume, by namespace and ID.
func (s *Snapshot) CSIVolumes(ws memdb.WatchSet) iter.Seq[*csi.Volume] {
	return csiVolumes.All(s.tx, ws)
}

// CSIVolumesByNamespace returns the volumes of a namespace, by ID.
func (s *Snapshot) CSIVolumesByNamespace(ws memdb.WatchSet, ns string) iter.Seq[*csi.Volume] {
	return csiVolumes.By(s.tx, ws, table.Primary, table.KeyOf(ns))
}

// CSIVolumesByPlugin returns the volumes of a plugin in all namespaces.
func (s *Snapshot) CSIVolumesByPlugin(ws memdb.WatchSet, plugin string) iter.Seq[*csi.Volume] {
	return csiVolumes.By(s.tx, ws, "plugin_id", table.KeyOf(plugin))
}

// CSIDuplicates returns the other records of the same volume of the storage system.
func (s *Snapshot) CSIDuplicates(v *csi.Volume) iter.Seq[*csi.Volume] {
	return func(yield func(*csi.Volume) bool) {
		for other := range s.CSIVolumesByPlugin(nil, v.PluginID) {
			if v.Duplicates(other) && !yield(other) {
				return
			}
		}
	}
}

// CSIVolumesByKey returns the volumes whose secrets the root key encrypts.
func (s *Snapshot) CSIVolumesByKey(ws memdb.WatchSet, key string) iter.Seq[*csi.Volume] {
	return csiVolumes.By(s.tx, ws, "key_id", table.KeyOf(key))
}

// ShownCSIVolume returns a copy of the volume with the fields that its plugin determines. It still contains the secrets.
func (s *Snapshot) ShownCSIVolume(ws memdb.WatchSet, v *csi.Volume) *csi.Volume {
	return v.Shown(csiPlugins.Get(s.tx, ws, table.KeyOf(v.PluginID)))
}

// UnsealedCSIVolumes returns the volumes with plain secrets, which servers of other builds stored. A leader seals them and
// registers the volumes again.
func (s *Snapshot) UnsealedCSIVolumes() iter.Seq[*csi.Volume] {
	return func(yield func(*csi.Volume) bool) {
		for v := range csiVolumes.All(s.tx, nil) {
			if len(v.Secrets) > 0 && !yield(v) {
				return
			}
		}
	}
}

// EndedCSIClaims returns the claims of a volume that are to be released, by allocation ID: those that are being released, and
// those whose allocation is gone or has ended on its client, as unpublishing.
func (s *Snapshot) EndedCSIClaims(v *csi.Volume) []*csi.Claim {
	var out []*csi.Claim
	for _, c := range v.PastClaims {
		if c != nil {
			out = append(out, c)
		}
	}
	for _, claims := range []map[string]*csi.Claim{v.WriteClaims, v.ReadClaims} {
		for id, c := range claims {
			a := allocs.Get(s.tx, nil, table.KeyOf(id))
			if c != nil && v.ClaimOf(id) == c && (a == nil || a.ClientTerminalStatus()) {
				ended := *c
				ended.State = csi.ClaimUnpublishing
				out = append(out, &ended)
			}
		}
	}
	slices.SortFunc(out, func(a, b *csi.Claim) int { return cmp.Compare(a.AllocationID, b.AllocationID) })
	return out
}

// CSIVolumesOnNode returns the volumes that a node has attached or will attach, by plugin: those that a claim of the node holds,
// and those that allocations request which their client has not ended. The keys of a plugin's volumes are namespace/ID.
func (s *Snapshot) CSIVolumesOnNode(node string) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	add := func(v *csi.Volume) {
		if out[v.PluginID] == nil {
			out[v.PluginID] = map[string]bool{}
		}
		out[v.PluginID][v.Namespace+"/"+v.ID] = true
	}
	for v := range csiVolumes.By(s.tx, nil, "node_id", table.KeyOf(node)) {
		add(v)
	}
	for a := range s.LiveAllocsByNode(node) {
		for _, r := range a.CSIRequests(a.Job) {
			if v := csiVolumes.Get(s.tx, nil, table.KeyOf(a.Namespace, r.SourceFor(a.Name))); v != nil {
				add(v)
			}
		}
	}
	return out
}

// claimingNodes returns the keys of the nodes with claims on a volume. Claims in records of old servers do not name their node.
func claimingNodes(v *csi.Volume) (out []table.Key) {
	seen := map[string]bool{"": true}
	for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims, v.PastClaims} {
		for _, c := range claims {
			if !seen[c.NodeID] {
				seen[c.NodeID] = true
				out = append(out, table.KeyOf(c.NodeID))
			}
		}
	}
	return out
}

// RegisterCSIVolumes stores new volumes and updates. The claims of a stored volume are kept.
func (s *Store) RegisterCSIVolumes(index uint64, req *message.CSIVolumeRegisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, v := range req.Volumes {
			if v == nil || v.ID == "" {
				return fmt.Errorf("register CSI volume: missing volume ID")
			}
			if err := t.registerCSIVolume(v, req.Timestamp); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *txn) registerCSIVolume(requested *csi.Volume, at int64) error {
	v := requested.Unclaimed()
	if namespaces.Get(t, nil, table.KeyOf(v.Namespace)) == nil {
		return fmt.Errorf("volume %s is in nonexistent namespace %s", v.ID, v.Namespace)
	}
	v.CreateIndex, v.ModifyIndex, v.CreateTime, v.ModifyTime = t.Index, t.Index, at, at
	if old := csiVolumes.Get(t, nil, table.KeyOf(v.Namespace, v.ID)); old != nil {
		if err := v.Succeed(old); err != nil {
			return err
		}
	}
	csiVolumes.Put(t.Txn, v)
	t.retryCSI(v)
	return nil
}

// DeregisterCSIVolumes removes volumes. One that allocations use is refused. With Force it is removed if these allocations are
// gone or have ended; the claims are then dropped, and nothing is unmounted.
func (s *Store) DeregisterCSIVolumes(index uint64, req *message.CSIVolumeDeregisterRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range req.VolumeIDs {
			v := csiVolumes.Get(t, nil, table.KeyOf(req.Namespace, id))
			if v == nil {
				return fmt.Errorf("%w: %s", csi.ErrVolumeNotFound, id)
			}
			if v.InUse() && !(req.Force && t.unusedCSI(v)) {
				return fmt.Errorf("%w: %s", csi.ErrVolumeInUse, id)
			}
			csiVolumes.Delete(t.Txn, v)
		}
		return nil
	})
}

// unusedCSI reports whether every allocation with a claim on the volume is gone or has ended.
func (t *txn) unusedCSI(v *csi.Volume) bool {
	for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims, v.PastClaims} {
		for id := range claims {
			if a := allocs.Get(t, nil, table.KeyOf(id)); a != nil && !a.TerminalStatus() {
				return false
			}
		}
	}
	return true
}

// ClaimCSIVolume takes a claim, or records the next state of one.
func (s *Store) ClaimCSIVolume(index uint64, req *message.CSIVolumeClaimRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error { return t.claimCSIVolume(req) })
}

// ClaimCSIVolumes is ClaimCSIVolume for several claims. One that cannot be applied is skipped. If none can be applied, the
// error names all of them.
func (s *Store) ClaimCSIVolumes(index uint64, req *message.CSIVolumeClaimBatchRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		var errs []error
		for i := range req.Claims {
			if err := t.claimCSIVolume(&req.Claims[i]); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == len(req.Claims) {
			return errors.Join(errs...)
		}
		return nil // the sender reads from state which claims have moved
	})
}

func (t *txn) claimCSIVolume(req *message.CSIVolumeClaimRequest) error {
	v := csiVolumes.Get(t, nil, table.KeyOf(req.Namespace, req.VolumeID))
	if v == nil {
		return fmt.Errorf("%w: %s", csi.ErrVolumeNotFound, req.VolumeID)
	}
	if req.AllocationID == "" {
		return t.touchCSI(v, req)
	}
	next, err := t.claimedCSI(v, req)
	if err != nil {
		return fmt.Errorf("alloc %q failed to claim volume %q: %w", req.AllocationID, v.ID, err)
	}
	if next == v {
		return nil
	}
	next.ModifyIndex, next.ModifyTime = t.Index, max(v.ModifyTime, req.Timestamp)
	csiVolumes.Put(t.Txn, next)
	if before := v.ClaimOf(req.AllocationID); before != nil && next.ClaimOf(req.AllocationID) == nil {
		t.retryCSI(v)
		t.retryOnNode(before.NodeID, v.PluginID)
	}
	return nil
}

// touchCSI changes only the indexes of a volume. Leaders of Nomad 2.0 wake the release of claims this way.
func (t *txn) touchCSI(v *csi.Volume, req *message.CSIVolumeClaimRequest) error {
	if req.Claim != csi.ClaimGC {
		return fmt.Errorf("claim of volume %q: missing allocation ID", v.ID)
	}
	next := *v
	next.ModifyIndex, next.ModifyTime = t.Index, max(v.ModifyTime, req.Timestamp)
	csiVolumes.Put(t.Txn, &next)
	return nil
}

// claimedCSI returns the volume after the claim of a request, or v itself if the request changes nothing.
func (t *txn) claimedCSI(v *csi.Volume, req *message.CSIVolumeClaimRequest) (*csi.Volume, error) {
	c := &csi.Claim{AllocationID: req.AllocationID, NodeID: req.NodeID, ExternalNodeID: req.ExternalNodeID, Mode: req.Claim,
		AccessMode: req.AccessMode, AttachmentMode: req.AttachmentMode, State: req.State, Since: req.Timestamp, Waits: req.Waits}
	if c.State != csi.ClaimTaken {
		return v.WithState(c)
	}
	if v.HasClaim(c) {
		return v, nil
	}
	a := allocs.Get(t, nil, table.KeyOf(c.AllocationID))
	switch {
	case a == nil || a.Namespace != v.Namespace:
		return nil, fmt.Errorf("allocation missing: %s", c.AllocationID)
	case a.ClientTerminalStatus():
		return nil, fmt.Errorf("the allocation has ended: its client status is %s", a.ClientStatus)
	case !csiPlugins.Get(t, nil, table.KeyOf(v.PluginID)).Schedulable():
		return nil, csi.ErrUnschedulable
	}
	c.NodeID = a.NodeID // the release asks this node
	return v.WithClaim(c)
}

// retryCSI lets the evaluations retry that wait for the volume.
func (t *txn) retryCSI(v *csi.Volume) {
	t.changes.Volumes = append(t.changes.Volumes, csi.Resource(v.Namespace, v.ID))
}

// retryOnNode lets the evaluations retry that wait for a node with a limit of volumes: it can attach one more.
func (t *txn) retryOnNode(id, plugin string) {
	if n := nodes.Get(t, nil, table.KeyOf(id)); n != nil && n.CSINodePlugins[plugin].VolumeLimit() > 0 {
		t.changes.Nodes = append(t.changes.Nodes, n)
	}
}

// canonicalCSIVolume sets fields that other builds leave out of snapshots: each allocation has a claim, and the modes are those
// of the claims.
func canonicalCSIVolume(v *csi.Volume) {
	if v.Namespace == "" {
		v.Namespace = nomad.DefaultNamespace
	}
	v.Canonicalize()
}
