package csi

import (
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// accessModes are the modes of the specification. Nomad has none for its single-node modes with several writers.
var accessModes = map[nomad.VolumeAccessMode]spec.VolumeCapability_AccessMode_Mode{
	nomad.VolumeSingleNodeReader:      spec.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	nomad.VolumeSingleNodeWriter:      spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	nomad.VolumeMultiNodeReader:       spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	nomad.VolumeMultiNodeSingleWriter: spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	nomad.VolumeMultiNodeMultiWriter:  spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
}

// capability converts a capability with the mount options of its volume.
func capability(c csi.Capability, options *nomad.CSIMountOptions) (*spec.VolumeCapability, error) {
	mode, ok := accessModes[c.AccessMode]
	if !ok {
		return nil, fmt.Errorf("unknown volume access mode: %s", short(string(c.AccessMode)))
	}
	out := &spec.VolumeCapability{AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode}}
	switch c.AttachmentMode {
	case nomad.VolumeAttachFilesystem:
		mount := &spec.VolumeCapability_MountVolume{}
		if options != nil {
			mount.FsType, mount.MountFlags = options.FSType, options.MountFlags
		}
		out.AccessType = &spec.VolumeCapability_Mount{Mount: mount}
	case nomad.VolumeAttachBlockDevice:
		out.AccessType = &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}}
	default:
		return nil, fmt.Errorf("unknown volume attachment mode: %s", short(string(c.AttachmentMode)))
	}
	return out, nil
}

// capabilities converts the capabilities of a volume. A volume has at least one.
func capabilities(list []*csi.Capability, options *nomad.CSIMountOptions) ([]*spec.VolumeCapability, error) {
	var out []*spec.VolumeCapability
	for _, c := range list {
		if c == nil {
			continue
		}
		converted, err := capability(*c, options)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the volume has no capability")
	}
	return out, nil
}

// capacity converts a range. A range without limits is not sent.
func capacity(r csi.CapacityRange) *spec.CapacityRange {
	if r.RequiredBytes == 0 && r.LimitBytes == 0 {
		return nil
	}
	return &spec.CapacityRange{RequiredBytes: r.RequiredBytes, LimitBytes: r.LimitBytes}
}
