package csi

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/open-nomad/open-nomad/nomad"
)

// ClaimOf returns the claim of an allocation in its newest state, or nil if it has none.
func (v *Volume) ClaimOf(alloc string) *Claim {
	return cmp.Or(v.PastClaims[alloc], v.WriteClaims[alloc], v.ReadClaims[alloc])
}

// HasClaim reports whether the volume has the claim already, or a claim of the allocation that includes it: a claim for writing
// includes one for reading. A claim that is being released does not count.
func (v *Volume) HasClaim(c *Claim) bool {
	if v.PastClaims[c.AllocationID] != nil {
		return false
	}
	return v.WriteClaims[c.AllocationID] != nil || c.Mode == ClaimRead && v.ReadClaims[c.AllocationID] != nil
}

// WithClaim returns a copy of the volume with another claim. The claim of a reader that wants to write replaces its earlier one.
// The caller has checked that the allocation exists and that the volume is schedulable.
func (v *Volume) WithClaim(c *Claim) (*Volume, error) {
	if past := v.PastClaims[c.AllocationID]; past != nil {
		return nil, fmt.Errorf("%w: the earlier claim of the allocation is %s", ErrMaxClaims, past.State)
	}
	out, taken := v.without(c.AllocationID), *c
	switch {
	case c.Mode != ClaimRead && c.Mode != ClaimWrite:
		return nil, fmt.Errorf("unknown mode %d of a claim", int(c.Mode))
	case c.Mode == ClaimRead && !out.ReadFree():
		return nil, ErrMaxClaims
	case c.Mode == ClaimWrite && !out.AllowsWrites():
		return nil, fmt.Errorf("%w for writing", ErrUnschedulable)
	case c.Mode == ClaimWrite && !out.WriteFree():
		return nil, ErrMaxClaims
	}
	taken.State, taken.Waits = ClaimTaken, ""
	taken.AccessMode = cmp.Or(c.AccessMode, defaultModes[c.Mode])
	taken.AttachmentMode = cmp.Or(c.AttachmentMode, out.AttachmentMode, nomad.VolumeAttachFilesystem)
	if c.Mode == ClaimWrite && !writerModes[taken.AccessMode] {
		return nil, fmt.Errorf("a claim for writing cannot have the access mode %.64q", taken.AccessMode)
	}
	if out.AttachmentMode != "" && taken.AttachmentMode != out.AttachmentMode {
		return nil, ErrAttachmentMode
	}
	out.AccessMode, out.AttachmentMode = cmp.Or(out.AccessMode, taken.AccessMode), taken.AttachmentMode
	if c.Mode == ClaimRead {
		out.ReadAllocs[c.AllocationID], out.ReadClaims[c.AllocationID] = nil, &taken
	} else {
		out.WriteAllocs[c.AllocationID], out.WriteClaims[c.AllocationID] = nil, &taken
	}
	return out, nil
}

// defaultModes are the access modes of claims that name none.
var defaultModes = map[ClaimMode]nomad.VolumeAccessMode{
	ClaimRead: nomad.VolumeSingleNodeReader, ClaimWrite: nomad.VolumeSingleNodeWriter,
}

// WithState returns the volume after the claim of an allocation has moved to the state of c. It returns v itself if that changes
// nothing: the claim is in that state or a later one, or has been freed. A claim that is ready to free is removed.
func (v *Volume) WithState(c *Claim) (*Volume, error) {
	current := v.ClaimOf(c.AllocationID)
	if current == nil {
		return v, nil
	}
	moves, err := current.State.Reaches(c.State)
	if err != nil {
		return nil, err
	}
	waits := c.State == current.State && c.Waits != "" && c.Waits != current.Waits
	switch {
	case moves && c.State == ClaimReadyToFree:
		return v.without(c.AllocationID), nil
	case !moves && (!waits || current.State == ClaimTaken):
		return v, nil
	}
	next := *current
	next.Waits = c.Waits
	next.ExternalNodeID = cmp.Or(current.ExternalNodeID, c.ExternalNodeID)
	if moves {
		next.State, next.Since = c.State, c.Since
	}
	out := v.editable()
	out.PastClaims[c.AllocationID] = &next
	return out, nil
}

// without returns a copy without the claims of an allocation. Without any claim the volume has no modes.
func (v *Volume) without(alloc string) *Volume {
	out := v.editable()
	for _, claims := range []map[string]*Claim{out.ReadClaims, out.WriteClaims, out.PastClaims} {
		delete(claims, alloc)
	}
	delete(out.ReadAllocs, alloc)
	delete(out.WriteAllocs, alloc)
	if !out.InUse() {
		out.AccessMode, out.AttachmentMode = "", ""
	}
	return out
}

// editable returns a copy with maps of its own.
func (v *Volume) editable() *Volume {
	out := *v
	out.ReadAllocs, out.WriteAllocs = cloned(v.ReadAllocs), cloned(v.WriteAllocs)
	out.ReadClaims, out.WriteClaims, out.PastClaims = cloned(v.ReadClaims), cloned(v.WriteClaims), cloned(v.PastClaims)
	return &out
}

// cloned returns a copy of a map, which is never nil.
func cloned[V any](m map[string]V) map[string]V {
	out := make(map[string]V, len(m)+1)
	maps.Copy(out, m)
	return out
}
