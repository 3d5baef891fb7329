package state

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// claimPrefix begins the keys of the index rows that hold volume claims in snapshots, which have no record type for
// them. The JSON of the claim follows the prefix. The value is the index of its last change.
const claimPrefix = "volume_claim/"

var volumeClaims = &table.Table[hostvolume.Claim]{
	Name: TableVolumeClaims,
	ID: func(c *hostvolume.Claim) table.Key {
		return table.KeyOf(c.Namespace, c.JobID, c.TaskGroupName, c.VolumeID)
	},
	Indexes: []table.Index[hostvolume.Claim]{
		{Name: "claim", Key: func(c *hostvolume.Claim) table.Key { return table.KeyOf(c.ID) }},
		{Name: "volume", Key: func(c *hostvolume.Claim) table.Key { return table.KeyOf(c.VolumeID) }},
	},
}

// VolumeClaim returns the claim with the ID in any namespace, or nil if there is none.
func (s *Snapshot) VolumeClaim(ws memdb.WatchSet, id string) *hostvolume.Claim {
	return volumeClaim(s.tx, ws, id)
}

func volumeClaim(tx table.Reader, ws memdb.WatchSet, id string) *hostvolume.Claim {
	for c := range volumeClaims.By(tx, ws, "claim", table.KeyOf(id)) {
		return c
	}
	return nil
}

// VolumeClaims returns every claim, by namespace, job, group and volume.
func (s *Snapshot) VolumeClaims(ws memdb.WatchSet) iter.Seq[*hostvolume.Claim] {
	return volumeClaims.All(s.tx, ws)
}

// VolumeClaimsOf returns the claims of a group of a job.
func (s *Snapshot) VolumeClaimsOf(namespace, job, group string) iter.Seq[*hostvolume.Claim] {
	return volumeClaims.By(s.tx, nil, table.Primary, table.KeyOf(namespace, job, group))
}

// claimVolumes stores the claims of a placed allocation: one for each sticky request that its node serves with a
// dynamic volume. A claim of an allocation that still runs is kept.
func (t *txn) claimVolumes(a *nomad.Allocation) {
	if a.Job == nil || a.TerminalStatus() {
		return
	}
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		r := tg.Volumes[name]
		if r == nil || !r.Sticky || r.Type != nomad.VolumeTypeHost {
			continue
		}
		v := hostVolumeOn(t, nil, a.NodeID, r.SourceFor(a.Name))
		if v != nil && v.Namespace == a.Namespace {
			t.claimVolume(a, v)
		}
	}
}

func (t *txn) claimVolume(a *nomad.Allocation, v *hostvolume.Volume) {
	c := hostvolume.Claim{Namespace: a.Namespace, JobID: a.JobID, TaskGroupName: a.TaskGroup, AllocID: a.ID,
		VolumeID: v.ID, VolumeName: v.Name, ID: claimID(a.ID, v.ID), CreateIndex: t.Index, ModifyIndex: t.Index}
	if old := volumeClaims.Get(t, nil, volumeClaims.ID(&c)); old != nil {
		holder := allocs.Get(t, nil, table.KeyOf(old.AllocID))
		if old.AllocID == a.ID || holder != nil && !holder.TerminalStatus() {
			return
		}
		c.ID, c.CreateIndex = old.ID, old.CreateIndex
	}
	volumeClaims.Put(t.Txn, &c)
}

// claimID returns the ID of a new claim in the form of a version 8 UUID. All servers compute the same.
func claimID(alloc, volume string) string {
	b := sha256.Sum256([]byte(alloc + "\x00" + volume))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// deleteClaims removes the claims of a job.
func (t *txn) deleteClaims(j *nomad.Job) {
	for _, c := range slices.Collect(volumeClaims.By(t, nil, table.Primary, table.KeyOf(j.Namespace, j.ID))) {
		volumeClaims.Delete(t.Txn, c)
	}
}

// DeleteVolumeClaim removes a claim of the namespace of the request.
func (s *Store) DeleteVolumeClaim(index uint64, req *message.TaskGroupVolumeClaimDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		c := volumeClaim(t, nil, req.ClaimID)
		if c == nil || req.Namespace != "" && c.Namespace != req.Namespace {
			return fmt.Errorf("task group volume claim does not exist")
		}
		volumeClaims.Delete(t.Txn, c)
		t.retryPlacements(c)
		return nil
	})
}

// retryPlacements adds a node to the changes, so that an evaluation which waits for the claimed volume is retried: it
// waits for any node.
func (t *txn) retryPlacements(c *hostvolume.Claim) {
	if v := hostVolumeByID(t, c.VolumeID); v != nil {
		if n := nodes.Get(t, nil, table.KeyOf(v.NodeID)); n != nil {
			t.changes.Nodes = append(t.changes.Nodes, n)
			return
		}
	}
	for n := range nodes.All(t, nil) {
		t.changes.Nodes = append(t.changes.Nodes, n)
		return
	}
}

// claimRow returns the snapshot row of a claim.
func claimRow(c *hostvolume.Claim) *nomad.IndexEntry {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("state: bug: volume claim %q: %v", c.ID, err))
	}
	return &nomad.IndexEntry{Key: claimPrefix + string(text), Value: c.ModifyIndex}
}

// readClaim restores a claim from its JSON.
func (r *Restore) readClaim(text string) error {
	c := new(hostvolume.Claim)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("volume claim: %w", err)
	}
	return volumeClaims.Load(r.txn.Txn, c)
}
