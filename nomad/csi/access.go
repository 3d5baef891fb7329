package csi

import "github.com/open-nomad/open-nomad/nomad"

// writerModes are the access modes in which allocations may write.
var writerModes = map[nomad.VolumeAccessMode]bool{
	nomad.VolumeSingleNodeWriter: true, nomad.VolumeMultiNodeSingleWriter: true, nomad.VolumeMultiNodeMultiWriter: true,
}

// ReadFree reports whether another allocation may claim the volume for reading, in its current mode:
//
//	current mode               free to read             free to write
//	none                       yes                      yes
//	single-node-reader-only    without readers          no
//	single-node-writer         without any claim        without writers
//	multi-node-reader-only     yes                      no
//	multi-node-single-writer   yes                      without writers
//	multi-node-multi-writer    yes                      yes
//
// A claim that is being released counts: the volume may still be mounted.
func (v *Volume) ReadFree() bool {
	switch v.AccessMode {
	case nomad.VolumeSingleNodeReader:
		return len(v.ReadClaims) == 0
	case nomad.VolumeSingleNodeWriter:
		return len(v.ReadClaims) == 0 && len(v.WriteClaims) == 0
	case "", nomad.VolumeMultiNodeReader, nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeMultiWriter:
		return true
	}
	return false
}

// WriteFree reports whether another allocation may claim the volume for writing, in its current mode. See ReadFree.
func (v *Volume) WriteFree() bool {
	switch v.AccessMode {
	case nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeSingleWriter:
		return len(v.WriteClaims) == 0
	case "", nomad.VolumeMultiNodeMultiWriter:
		return true
	}
	return false
}

// AllowsWrites reports whether the current mode of the volume, or one of its capabilities, has a writer.
func (v *Volume) AllowsWrites() bool {
	if v.AccessMode != "" {
		return writerModes[v.AccessMode]
	}
	for _, c := range v.RequestedCapabilities {
		if c != nil && writerModes[c.AccessMode] {
			return true
		}
	}
	return false
}

// InUse reports whether the volume has a claim, also one that is being released.
func (v *Volume) InUse() bool { return len(v.ReadClaims)+len(v.WriteClaims)+len(v.PastClaims) > 0 }
