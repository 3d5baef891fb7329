package feasible

import (
	"cmp"
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// CSIUse is the use of a CSI volume by an allocation: a claim, or the request of an allocation that has no claim yet.
type CSIUse struct {
	ID     string            // of the allocation
	Alloc  *nomad.Allocation // nil if the allocation was collected
	Job    *nomad.Job        // of the allocation, nil if it was collected
	Claim  *csi.Claim        // nil if the allocation has no claim yet
	Writes bool
	Mode   nomad.VolumeAccessMode
}

// CSIVolume is a CSI volume with its uses, in the order in which the allocations have claimed it or will do so.
type CSIVolume struct {
	*csi.Volume // with Schedulable
	uses        []CSIUse
	modes       map[nomad.VolumeAccessMode]int // uses by mode
}

// CSIUsers are the allocations of a volume.
type CSIUsers struct {
	All   iter.Seq[*nomad.Allocation]        // those that request it and that their client has not ended
	Alloc func(id string) *nomad.Allocation  // any allocation, or nil
	JobOf func(*nomad.Allocation) *nomad.Job // the version of its job, or nil
}

// NewCSIVolume returns a volume with its uses.
func NewCSIVolume(shown *csi.Volume, users CSIUsers) *CSIVolume {
	v := &CSIVolume{Volume: shown, modes: map[nomad.VolumeAccessMode]int{}}
	claimed := map[string]bool{}
	for _, side := range []struct {
		claims map[string]*csi.Claim
		writes bool
	}{{shown.WriteClaims, true}, {shown.ReadClaims, false}} {
		for id, c := range side.claims {
			if c != nil && !claimed[id] {
				claimed[id] = true
				u := CSIUse{ID: id, Alloc: users.Alloc(id), Claim: c, Writes: side.writes, Mode: c.AccessMode}
				if past := shown.PastClaims[id]; past != nil {
					u.Claim = past
				}
				if u.Alloc != nil {
					u.Job = users.JobOf(u.Alloc)
				}
				v.add(u)
			}
		}
	}
	slices.SortFunc(v.uses, func(a, b CSIUse) int { return cmp.Compare(a.ID, b.ID) })
	var waiting []*nomad.Allocation
	for a := range users.All {
		if !claimed[a.ID] && !a.ClientTerminalStatus() {
			waiting = append(waiting, a)
		}
	}
	slices.SortFunc(waiting, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex-1, b.CreateIndex-1), cmp.Compare(a.ID, b.ID)) // those of a plan, with 0, are last
	})
	for _, a := range waiting {
		v.Add(a, users.JobOf(a))
	}
	return v
}

// Add adds the use of an allocation that has no claim yet. An allocation that does not request the volume adds none.
func (v *CSIVolume) Add(a *nomad.Allocation, job *nomad.Job) {
	u := CSIUse{ID: a.ID, Alloc: a, Job: job}
	for _, r := range a.CSIRequests(job) {
		if r.SourceFor(a.Name) != v.ID {
			continue
		}
		if u.Mode == "" || !r.Reads() {
			u.Mode = r.Capability().AccessMode
		}
		u.Writes = u.Writes || !r.Reads()
	}
	if u.Mode != "" {
		v.add(u)
	}
}

func (v *CSIVolume) add(u CSIUse) {
	v.uses = append(v.uses, u)
	v.modes[u.Mode]++
}

// Remove removes the uses of an allocation.
func (v *CSIVolume) Remove(alloc string) {
	v.uses = slices.DeleteFunc(v.uses, func(u CSIUse) bool {
		if u.ID == alloc {
			v.modes[u.Mode]--
		}
		return u.ID == alloc
	})
}

// always reports whether a request is free whichever of the uses end: thousands of allocations may share a volume.
func (v *CSIVolume) always(r *nomad.VolumeRequest) bool {
	shared := []nomad.VolumeAccessMode{nomad.VolumeMultiNodeMultiWriter}
	if r.Reads() {
		shared = append(shared, nomad.VolumeMultiNodeReader, nomad.VolumeMultiNodeSingleWriter)
	} else if oneWriter[r.Capability().AccessMode] {
		return false
	}
	n := 0
	for _, mode := range shared {
		n += v.modes[mode]
	}
	unused := &csi.Volume{RequestedCapabilities: v.RequestedCapabilities}
	return n > 0 && n == len(v.uses) && (v.AccessMode == "" || slices.Contains(shared, v.AccessMode)) && (r.Reads() || unused.AllowsWrites())
}

// OnNodeBeside reports whether an allocation uses the volume on a node, other than those that except reports by their IDs.
func (v *CSIVolume) OnNodeBeside(node string, except func(alloc string) bool) bool {
	return slices.ContainsFunc(v.uses, func(u CSIUse) bool {
		return !except(u.ID) && (u.Alloc != nil && u.Alloc.NodeID == node || u.Claim != nil && u.Claim.NodeID == node)
	})
}

// refuse returns why the volume excludes one more allocation of a job. ends reports whether another allocation ends before the
// new one starts: its use does not count if it is of the same job. The new allocation then waits on its client until
// the claim is free.
func (v *CSIVolume) refuse(r *nomad.VolumeRequest, job nomad.NamespacedID, ends func(*nomad.Allocation) bool) CSIRefusal {
	reads, unusable, exhausted := r.Reads(), "", ""
	if reads {
		unusable = "CSI volume " + v.ID + " is unschedulable or has exhausted its available reader claims"
		exhausted = unusable
	} else {
		unusable = "CSI volume " + v.ID + " is unschedulable or is read-only"
		exhausted = "CSI volume " + v.ID + " has exhausted its available writer claims"
	}
	no := func(text string, by *CSIUse) CSIRefusal {
		return CSIRefusal{Text: text, Waits: true, By: by}
	}
	if !v.Schedulable {
		return no(unusable, nil)
	}
	if v.always(r) {
		return CSIRefusal{}
	}
	rest, uses := v.remaining(job, ends)
	switch {
	case reads && rest.ReadFree(), !reads && rest.AllowsWrites() && rest.WriteFree() && !sharesWriter(r, uses):
		return CSIRefusal{}
	case !reads && !rest.AllowsWrites():
		return no(unusable, first(uses, func(*CSIUse) bool { return true }))
	}
	by := first(uses, func(u *CSIUse) bool { return u.Writes || reads })
	if by != nil && by.Alloc == nil && !reads {
		exhausted += " and is claimed by a garbage collected allocation " + by.ID + "; waiting for claim to be released"
	}
	return no(exhausted, by)
}

// oneWriter are the access modes with a single writer.
var oneWriter = map[nomad.VolumeAccessMode]bool{nomad.VolumeSingleNodeWriter: true, nomad.VolumeMultiNodeSingleWriter: true}

// sharesWriter reports whether a request to write, or another writer, asks to be the only writer. The mode of the volume, which is
// that of the first claim, may allow both.
func sharesWriter(r *nomad.VolumeRequest, uses []*CSIUse) bool {
	return slices.ContainsFunc(uses, func(u *CSIUse) bool {
		return u.Writes && (oneWriter[r.Capability().AccessMode] || oneWriter[u.Mode])
	})
}

// first returns the first of the uses that is of an existing allocation and matches, or else the first that matches, or nil.
func first(uses []*CSIUse, matches func(*CSIUse) bool) (found *CSIUse) {
	for _, u := range uses {
		if !matches(u) {
			continue
		}
		if u.Alloc != nil {
			return u
		}
		if found == nil {
			found = u
		}
	}
	return found
}

// remaining returns the uses without those of allocations of the job that end, and the volume with the claims that it has when
// these have ended and all others have claimed it. It has the mode of the first of them.
func (v *CSIVolume) remaining(job nomad.NamespacedID, ends func(*nomad.Allocation) bool) (*csi.Volume, []*CSIUse) {
	rest := &csi.Volume{RequestedCapabilities: v.RequestedCapabilities, ReadClaims: map[string]*csi.Claim{},
		WriteClaims: map[string]*csi.Claim{}}
	var uses []*CSIUse
	for i := range v.uses {
		u := &v.uses[i]
		if a := u.Alloc; a != nil && a.Namespace == job.Namespace && a.JobID == job.ID && (a.TerminalStatus() || ends(a)) {
			continue
		}
		uses = append(uses, u)
		if u.Writes {
			rest.WriteClaims[u.ID] = u.Claim
		} else {
			rest.ReadClaims[u.ID] = u.Claim
		}
		switch {
		case rest.AccessMode != "":
		case u.Claim != nil:
			rest.AccessMode = cmp.Or(v.AccessMode, u.Mode)
		default:
			rest.AccessMode = u.Mode
		}
	}
	return rest, uses
}
