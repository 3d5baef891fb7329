package csi

import (
	"cmp"
	"fmt"
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

// Canonicalize sets what servers of other builds leave out: every allocation has a claim, every claim has its allocation, and the
// modes are those of the claims.
func (v *Volume) Canonicalize() {
	*v = *v.editable()
	for _, side := range []struct {
		mode   ClaimMode
		allocs []string
		claims map[string]*Claim
	}{
		{ClaimRead, keys(v.ReadAllocs), v.ReadClaims},
		{ClaimWrite, keys(v.WriteAllocs), v.WriteClaims},
	} {
		for _, id := range side.allocs {
			if side.claims[id] == nil {
				side.claims[id] = &Claim{AllocationID: id, Mode: side.mode, AccessMode: v.AccessMode, AttachmentMode: v.AttachmentMode}
			}
		}
	}
	for id := range v.ReadClaims {
		v.ReadAllocs[id] = nil
	}
	for id := range v.WriteClaims {
		v.WriteAllocs[id] = nil
	}
	if !v.InUse() {
		v.AccessMode, v.AttachmentMode = "", ""
	}
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
