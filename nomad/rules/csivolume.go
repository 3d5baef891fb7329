package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// Limits of CSI volumes. The IDs are also the names of directories of nodes.
const (
	maxCSIID         = 255 // bytes of an ID, and of a name
	maxCSIExternalID = 1024
	maxCSIItems      = 256      // capabilities, topologies, mount flags
	maxCSIMap        = 64 << 10 // bytes of the names and values of parameters, context or segments
)

// redactedFlags are the mount flags of a volume in a reply. See csi.Volume.Redacted.
var redactedFlags = []string{"[REDACTED]"}

// CSIVolume returns an error that lists what is not valid in a volume.
func CSIVolume(v *csi.Volume) error {
	var wrong []string
	for _, c := range []struct {
		wrong bool
		text  string
	}{
		{v.ID == "", "missing volume id"},
		{v.PluginID == "", "missing plugin id"},
		{v.Namespace == "", "missing namespace"},
		{v.SnapshotID != "" && v.CloneID != "", "only one of snapshot_id and clone_id is allowed"},
		{len(v.RequestedCapabilities) == 0, "must include at least one capability block"},
		{v.ID != "" && !plainCSIID(v.ID), idRule("volume id")},
		{v.PluginID != "" && !plainCSIID(v.PluginID), idRule("plugin id")},
		{len(v.Name) > maxCSIID || control(v.Name), fmt.Sprintf("name is longer than %d bytes or has control characters", maxCSIID)},
		{v.RequestedCapacityMin < 0 || v.RequestedCapacityMax < 0 || v.Capacity < 0, "a capacity is negative"},
	} {
		if c.wrong {
			wrong = append(wrong, c.text)
		}
	}
	for _, id := range []string{v.ExternalID, v.SnapshotID, v.CloneID} {
		if err := CSIExternalID(id); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	wrong = append(wrong, csiCapabilities(v.RequestedCapabilities)...)
	wrong = append(wrong, csiTopologies(v.RequestedTopologies)...)
	wrong = append(wrong, csiSizes(v)...)
	if len(wrong) > 0 {
		return fmt.Errorf("validation: %s", strings.Join(wrong, ", "))
	}
	return nil
}

func idRule(what string) string {
	return fmt.Sprintf("%s must have at most %d bytes, without slashes and control characters, and not be \".\" or \"..\"", what, maxCSIID)
}

// plainCSIID reports whether an ID can be the name of a directory.
func plainCSIID(id string) bool {
	return len(id) <= maxCSIID && id != "." && id != ".." && !strings.Contains(id, "/") && !control(id)
}

// control reports whether a text has control characters.
func control(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// CSIExternalID returns an error if an ID of a storage system is too long or has control characters.
func CSIExternalID(id string) error {
	if len(id) > maxCSIExternalID || control(id) {
		return fmt.Errorf("the ID %.32q of the storage system has control characters, or more than %d bytes", id, maxCSIExternalID)
	}
	return nil
}

// CSIContext returns an error if the context or the topologies that a plugin returned are too large.
func CSIContext(v *csi.Volume) error {
	if len(v.Topologies) > maxCSIItems || mapSize(v.Context) > maxCSIMap {
		return fmt.Errorf("the context has more than %d bytes, or there are more than %d topologies", maxCSIMap, maxCSIItems)
	}
	for _, t := range v.Topologies {
		if t != nil && mapSize(t.Segments) > maxCSIMap {
			return fmt.Errorf("the segments of a topology have more than %d bytes", maxCSIMap)
		}
	}
	return nil
}

func mapSize(m map[string]string) (n int) {
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

// csiModes are the modes of capabilities.
var (
	csiAccessModes = []nomad.VolumeAccessMode{nomad.VolumeSingleNodeReader, nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeReader,
		nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeMultiWriter}
	csiAttachmentModes = []nomad.VolumeAttachmentMode{nomad.VolumeAttachFilesystem, nomad.VolumeAttachBlockDevice}
)

// csiCapabilities returns what is wrong with capabilities. A mode may be missing: jobs have their own modes.
func csiCapabilities(all []*csi.Capability) (wrong []string) {
	for _, c := range all {
		switch {
		case c == nil:
			wrong = append(wrong, "a capability block is empty")
		case c.AccessMode != "" && !slices.Contains(csiAccessModes, c.AccessMode):
			wrong = append(wrong, fmt.Sprintf("unknown access mode %.64q", c.AccessMode))
		case c.AttachmentMode != "" && !slices.Contains(csiAttachmentModes, c.AttachmentMode):
			wrong = append(wrong, fmt.Sprintf("unknown attachment mode %.64q", c.AttachmentMode))
		}
	}
	return wrong
}

// csiTopologies returns what is wrong with requested topologies.
func csiTopologies(r *csi.TopologyRequest) (wrong []string) {
	if r == nil {
		return nil
	}
	for name, all := range map[string][]*nomad.CSITopology{"required": r.Required, "preferred": r.Preferred} {
		if slices.ContainsFunc(all, func(t *nomad.CSITopology) bool { return t == nil || len(t.Segments) == 0 }) {
			wrong = append(wrong, name+" topology is missing segments field")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// csiSizes returns what is too large.
func csiSizes(v *csi.Volume) (wrong []string) {
	if mapSize(v.Parameters) > maxCSIMap {
		wrong = append(wrong, fmt.Sprintf("parameters have more than %d bytes", maxCSIMap))
	}
	if err := CSIContext(v); err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(v.RequestedCapabilities) > maxCSIItems || v.MountOptions != nil && len(v.MountOptions.MountFlags) > maxCSIItems {
		wrong = append(wrong, fmt.Sprintf("more than %d capability blocks or mount flags", maxCSIItems))
	}
	if r := v.RequestedTopologies; r != nil && len(r.Required)+len(r.Preferred) > maxCSIItems {
		wrong = append(wrong, fmt.Sprintf("more than %d topologies", maxCSIItems))
	}
	return wrong
}

// NewCSIVolume returns an error if a volume that does not exist yet has a value that refers to the stored one.
func NewCSIVolume(v *csi.Volume) error {
	if v.MountOptions != nil && slices.Equal(v.MountOptions.MountFlags, redactedFlags) {
		return fmt.Errorf("validation: mount_flags are those of a reply, which hides them: set the flags of the volume")
	}
	return nil
}

// CSIVolumeUpdate returns a stored volume with the changes of a request, except for its capacity and its secrets. What the
// request does not set remains.
func CSIVolumeUpdate(old, v *csi.Volume) (*csi.Volume, error) {
	var wrong []string
	for _, f := range []struct{ name, old, set string }{
		{"name", old.Name, v.Name}, {"external ID", old.ExternalID, v.ExternalID}, {"clone ID", old.CloneID, v.CloneID},
		{"snapshot ID", old.SnapshotID, v.SnapshotID}, {"plugin ID", old.PluginID, v.PluginID},
	} {
		if f.set != f.old && (f.set != "" || f.name == "plugin ID") {
			wrong = append(wrong, fmt.Sprintf("volume %s cannot be updated", f.name))
		}
	}
	if len(v.Parameters) > 0 && !maps.Equal(v.Parameters, old.Parameters) {
		wrong = append(wrong, "volume parameters cannot be updated")
	}
	if !topologyFits(old, v.RequestedTopologies) {
		wrong = append(wrong, "volume topology request update was not compatible with existing topology")
	}
	if old.AccessMode != "" && !slices.ContainsFunc(v.RequestedCapabilities, func(c *csi.Capability) bool {
		return c.AccessMode == old.AccessMode && c.AttachmentMode == old.AttachmentMode
	}) {
		wrong = append(wrong, "volume requested capabilities update was not compatible with existing capability in use")
	}
	options := mountOptions(old, v)
	if old.InUse() && !sameOptions(options, old.MountOptions) {
		wrong = append(wrong, "can not update mount options while volume is in use")
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, ", "))
	}
	out := *old
	out.MountOptions, out.RequestedCapabilities = options, v.RequestedCapabilities
	if len(v.Context) > 0 {
		out.Context = v.Context
	}
	if r := v.RequestedTopologies; r != nil && len(r.Required)+len(r.Preferred) > 0 {
		out.RequestedTopologies = r
	}
	if len(old.Topologies) == 0 {
		out.Topologies = v.Topologies
	}
	return &out, nil
}

// mountOptions returns the mount options of an updated volume. The hidden flags of a reply stand for the stored ones.
func mountOptions(old, v *csi.Volume) *nomad.CSIMountOptions {
	if v.MountOptions == nil || old.MountOptions == nil || !slices.Equal(v.MountOptions.MountFlags, redactedFlags) {
		return v.MountOptions
	}
	return &nomad.CSIMountOptions{FSType: v.MountOptions.FSType, MountFlags: old.MountOptions.MountFlags}
}

// sameOptions reports whether mount options are equal. None are equal to empty ones.
func sameOptions(a, b *nomad.CSIMountOptions) bool {
	if a == nil {
		a = &nomad.CSIMountOptions{}
	}
	if b == nil {
		b = &nomad.CSIMountOptions{}
	}
	return a.FSType == b.FSType && slices.Equal(a.MountFlags, b.MountFlags)
}

// topologyFits reports whether the topologies of a stored volume meet the required ones of an update.
func topologyFits(old *csi.Volume, r *csi.TopologyRequest) bool {
	if r == nil || len(r.Required) == 0 || len(old.Topologies) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Required, func(t *nomad.CSITopology) bool {
		need := csi.Volume{Topologies: []*nomad.CSITopology{t}}
		return slices.ContainsFunc(old.Topologies, need.AccessibleFrom)
	})
}
