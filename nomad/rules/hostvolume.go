package rules

import (
	"fmt"
	"path"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
)

// hostVolumePlugin matches a valid ID of a host volume plugin. The ID is also the name of a file in the plugin
// directory, and a part of an attribute name.
var hostVolumePlugin = pattern.Lazy(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,63}$`)

// The largest name and the largest number of parameters and of capabilities of a volume.
const (
	maxVolumeName       = 128
	maxVolumeParameters = 64
	maxVolumeParameter  = 4096 // bytes of a name and its value
	maxVolumeRules      = 64   // constraints or capabilities
)

// HostVolumePlugin returns an error unless the ID is a plain name.
func HostVolumePlugin(id string) error {
	if !hostVolumePlugin().MatchString(id) {
		return fmt.Errorf("plugin_id is %q: use up to 64 letters, digits, '.', '_' and '-', not beginning with a dot", id)
	}
	return nil
}

// HostVolume returns an error with the first field of a volume that is not valid, and the remedy.
func HostVolume(v *hostvolume.Volume) error {
	switch {
	case v.Name == "":
		return apierror.Errorf(400, "volume: missing name: set name")
	case len(v.Name) > maxVolumeName || strings.ContainsFunc(v.Name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		return apierror.Errorf(400, "volume %q: the name is not valid: use up to %d characters without spaces, slashes and control characters",
			v.Name, maxVolumeName)
	case v.ID != "" && !nomad.IsUUID(v.ID):
		return apierror.Errorf(400, "volume %q: id is %q: use the ID of an existing volume, or remove it", v.Name, v.ID)
	case v.NodePool == nomad.NodePoolAll && v.NodeID == "":
		return apierror.Errorf(400, "volume %q: node_pool %q contains every node: remove it", v.Name, v.NodePool)
	}
	if v.PluginID != "" {
		if err := HostVolumePlugin(v.PluginID); err != nil {
			return apierror.Errorf(400, "volume %q: %v", v.Name, err)
		}
	}
	for _, check := range []func(*hostvolume.Volume) error{volumeCapacity, volumeCapabilities, volumeConstraints, volumeParameters} {
		if err := check(v); err != nil {
			return apierror.Errorf(400, "volume %q: %v", v.Name, err)
		}
	}
	return nil
}

func volumeCapacity(v *hostvolume.Volume) error {
	low, high := v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes
	switch {
	case low < 0 || high < 0 || v.CapacityBytes < 0:
		return fmt.Errorf("a capacity is negative: use a size such as 10GiB")
	case high > 0 && high < low:
		return fmt.Errorf("capacity_max (%d) is less than capacity_min (%d): exchange them", high, low)
	}
	return nil
}

func volumeCapabilities(v *hostvolume.Volume) error {
	if len(v.RequestedCapabilities) > maxVolumeRules {
		return fmt.Errorf("%d capability blocks: use at most %d", len(v.RequestedCapabilities), maxVolumeRules)
	}
	for _, c := range v.RequestedCapabilities {
		if c == nil {
			return fmt.Errorf("an empty capability: remove it")
		}
		switch c.AttachmentMode {
		case nomad.VolumeAttachFilesystem, nomad.VolumeAttachBlockDevice:
		default:
			return fmt.Errorf("attachment_mode in capability is %q: use file-system or block-device", c.AttachmentMode)
		}
		switch c.AccessMode {
		case nomad.VolumeSingleNodeReader, nomad.VolumeSingleNodeWriter, nomad.VolumeSingleNodeSingleWriter, nomad.VolumeSingleNodeMultiWriter:
		default:
			return fmt.Errorf("access_mode in capability is %q: "+
				"use single-node-reader-only, single-node-writer, single-node-single-writer or single-node-multi-writer", c.AccessMode)
		}
	}
	return nil
}

func volumeConstraints(v *hostvolume.Volume) error {
	if len(v.Constraints) > maxVolumeRules {
		return fmt.Errorf("%d constraint blocks: use at most %d", len(v.Constraints), maxVolumeRules)
	}
	for _, c := range v.Constraints {
		switch {
		case c == nil:
			return fmt.Errorf("an empty constraint: remove it")
		case c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty:
			return fmt.Errorf("constraint %s compares allocations, which a volume does not have: remove it", c.Operand)
		}
	}
	return nil
}

func volumeParameters(v *hostvolume.Volume) error {
	if len(v.Parameters) > maxVolumeParameters {
		return fmt.Errorf("%d parameters: use at most %d", len(v.Parameters), maxVolumeParameters)
	}
	for name, value := range v.Parameters {
		if len(name)+len(value) > maxVolumeParameter || strings.ContainsRune(name+value, 0) {
			return fmt.Errorf("parameter %.64q is longer than %d bytes or contains a NUL character", name, maxVolumeParameter)
		}
	}
	return nil
}

// HostPath returns an error unless the path of a registered volume is absolute and has no ".." parts.
func HostPath(p string) error {
	switch {
	case p == "":
		return apierror.Errorf(400, "cannot register volume: host path is required: set host_path")
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0):
		return apierror.Errorf(400, "cannot register volume: host_path is %q: "+
			"use an absolute path without \"..\", double slashes and a slash at the end", p)
	}
	return nil
}

// HostVolumeUpdate checks a new version of a volume against the stored one, and copies the fields that an update cannot change.
func HostVolumeUpdate(v, old *hostvolume.Volume) error {
	switch {
	case v.Name != old.Name:
		return apierror.Errorf(400, "cannot update volume %s: its name %q cannot change", old.ID, old.Name)
	case v.NodeID != "" && v.NodeID != old.NodeID:
		return apierror.Errorf(400, "cannot update volume %s: its node ID %s cannot change", old.ID, old.NodeID)
	case v.NodePool != "" && v.NodePool != old.NodePool:
		return apierror.Errorf(400, "cannot update volume %s: its node pool %q cannot change", old.ID, old.NodePool)
	case v.PluginID != "" && v.PluginID != old.PluginID:
		return apierror.Errorf(400, "cannot update volume %s: its plugin ID %q cannot change", old.ID, old.PluginID)
	case v.RequestedCapacityMaxBytes > 0 && v.RequestedCapacityMaxBytes < old.CapacityBytes:
		return apierror.Errorf(400, "cannot update volume %s: capacity_max (%d) is less than the capacity that it has (%d)",
			old.ID, v.RequestedCapacityMaxBytes, old.CapacityBytes)
	}
	v.NodeID, v.NodePool, v.PluginID, v.Constraints = old.NodeID, old.NodePool, old.PluginID, old.Constraints
	v.CreateIndex, v.CreateTime, v.State = old.CreateIndex, old.CreateTime, old.State
	if v.HostPath == "" {
		v.HostPath = old.HostPath
	}
	if v.CapacityBytes == 0 {
		v.CapacityBytes = old.CapacityBytes
	}
	return nil
}
