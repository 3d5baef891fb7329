package csi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Unclaimed returns a copy of the volume without claims and without the fields that are computed when it is read.
func (v *Volume) Unclaimed() *Volume {
	out := *v
	out.ReadAllocs, out.WriteAllocs, out.ReadClaims, out.WriteClaims, out.PastClaims = nil, nil, nil, nil, nil
	out.AccessMode, out.AttachmentMode = "", ""
	out.Allocations, out.Releases = nil, nil
	return out.Shown(nil).editable()
}

// Succeed makes v the successor of a stored volume: it takes over the claims and what never changes. It is an error if v is another
// volume of the storage system.
func (v *Volume) Succeed(old *Volume) error {
	provider := cmp.Or(v.Provider, old.Provider)
	if v.ExternalID != old.ExternalID || v.PluginID != old.PluginID || provider != cmp.Or(old.Provider, provider) {
		return fmt.Errorf("%w: %s", ErrIdentity, v.ID)
	}
	v.Provider = provider
	v.ReadAllocs, v.WriteAllocs = old.ReadAllocs, old.WriteAllocs
	v.ReadClaims, v.WriteClaims, v.PastClaims = old.ReadClaims, old.WriteClaims, old.PastClaims
	v.AccessMode, v.AttachmentMode = old.AccessMode, old.AttachmentMode
	v.CreateIndex, v.CreateTime = old.CreateIndex, old.CreateTime
	return nil
}

// Canonicalize sets what servers of other builds leave out: every allocation has a claim, every claim has its allocation, a claim
// that is being released is still held, and a claimed volume has the modes of its claims.
func (v *Volume) Canonicalize() {
	*v = *v.editable()
	for _, claims := range []map[string]*Claim{v.ReadClaims, v.WriteClaims, v.PastClaims} {
		maps.DeleteFunc(claims, func(_ string, c *Claim) bool { return c == nil })
	}
	for id, c := range v.PastClaims {
		if v.ReadClaims[id] == nil && v.WriteClaims[id] == nil {
			taken := *c
			taken.State, taken.Waits = ClaimTaken, ""
			v.side(c.Mode)[id] = &taken
		}
	}
	for id := range v.ReadAllocs {
		v.addClaim(id, ClaimRead)
	}
	for id := range v.WriteAllocs {
		v.addClaim(id, ClaimWrite)
	}
	v.ReadAllocs, v.WriteAllocs = allocsOf(v.ReadClaims), allocsOf(v.WriteClaims)
	v.setModes()
}

// side returns the claims of a mode.
func (v *Volume) side(m ClaimMode) map[string]*Claim {
	if m == ClaimWrite {
		return v.WriteClaims
	}
	return v.ReadClaims
}

// addClaim adds the claim of an allocation that has none.
func (v *Volume) addClaim(alloc string, m ClaimMode) {
	if v.side(m)[alloc] == nil {
		v.side(m)[alloc] = &Claim{AllocationID: alloc, Mode: m, AccessMode: v.AccessMode, AttachmentMode: v.AttachmentMode}
	}
}

// allocsOf returns the allocations of claims.
func allocsOf(claims map[string]*Claim) map[string]*nomad.Allocation {
	out := make(map[string]*nomad.Allocation, len(claims))
	for id := range claims {
		out[id] = nil
	}
	return out
}

// setModes sets the modes of a volume that are missing to those of its claims, and clears those of a volume without any.
func (v *Volume) setModes() {
	if !v.InUse() {
		v.AccessMode, v.AttachmentMode = "", ""
		return
	}
	for _, m := range []ClaimMode{ClaimWrite, ClaimRead} {
		claims := v.side(m)
		for _, id := range slices.Sorted(maps.Keys(claims)) {
			v.AccessMode = cmp.Or(v.AccessMode, claims[id].AccessMode, defaultModes[m])
			v.AttachmentMode = cmp.Or(v.AttachmentMode, claims[id].AttachmentMode, nomad.VolumeAttachFilesystem)
		}
	}
}
