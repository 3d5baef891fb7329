package nomad

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// hostVolumePlugin matches a valid ID of a host volume plugin. The ID is also the name of a file in the plugin
// directory, and a part of an attribute name.
var hostVolumePlugin = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,63}$`)

// The largest name and the largest number of parameters and of capabilities of a volume.
const (
	maxVolumeName       = 128
	maxVolumeParameters = 64
	maxVolumeParameter  = 4096 // bytes of a name and its value
	maxVolumeRules      = 64   // constraints or capabilities
)

// CheckHostVolumePlugin returns an error unless the ID is a plain name.
func CheckHostVolumePlugin(id string) error {
	if !hostVolumePlugin.MatchString(id) {
		return fmt.Errorf("plugin_id is %q: use up to 64 letters, digits, '.', '_' and '-', not beginning with a dot", id)
	}
	return nil
}

// Canonicalize sets the fields that have defaults: the plugin ID and the capabilities. A registered volume may have no
// plugin.
func (v *HostVolume) Canonicalize() {
	if len(v.RequestedCapabilities) == 0 {
		v.RequestedCapabilities = []*HostVolumeCapability{{}}
	}
	for _, c := range v.RequestedCapabilities {
		if c == nil {
			continue
		}
		if c.AccessMode == "" {
			c.AccessMode = VolumeSingleNodeWriter
		}
		if c.AttachmentMode == "" {
			c.AttachmentMode = VolumeAttachFilesystem
		}
	}
}

// Validate returns an error with the first field that is not valid, and the remedy.
func (v *HostVolume) Validate() error {
	switch {
	case v.Name == "":
		return Errorf(400, "volume: missing name: set name")
	case len(v.Name) > maxVolumeName || strings.ContainsFunc(v.Name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		return Errorf(400, "volume %q: the name is not valid: use up to %d characters without spaces, slashes and control characters", v.Name, maxVolumeName)
	case v.ID != "" && !IsUUID(v.ID):
		return Errorf(400, "volume %q: id is %q: use the ID of an existing volume, or remove it", v.Name, v.ID)
	case v.NodePool == NodePoolAll && v.NodeID == "":
		return Errorf(400, "volume %q: node_pool %q contains every node: remove it", v.Name, v.NodePool)
	}
	if v.PluginID != "" {
		if err := CheckHostVolumePlugin(v.PluginID); err != nil {
			return Errorf(400, "volume %q: %v", v.Name, err)
		}
	}
	for _, check := range []func() error{v.validateCapacity, v.validateCapabilities, v.validateConstraints, v.validateParameters} {
		if err := check(); err != nil {
			return Errorf(400, "volume %q: %v", v.Name, err)
		}
	}
	return nil
}

func (v *HostVolume) validateCapacity() error {
	low, high := v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes
	switch {
	case low < 0 || high < 0 || v.CapacityBytes < 0:
		return fmt.Errorf("a capacity is negative: use a size such as 10GiB")
	case high > 0 && high < low:
		return fmt.Errorf("capacity_max (%d) is less than capacity_min (%d): exchange them", high, low)
	}
	return nil
}

func (v *HostVolume) validateCapabilities() error {
	if len(v.RequestedCapabilities) > maxVolumeRules {
		return fmt.Errorf("%d capability blocks: use at most %d", len(v.RequestedCapabilities), maxVolumeRules)
	}
	for _, c := range v.RequestedCapabilities {
		if c == nil {
			return fmt.Errorf("an empty capability: remove it")
		}
		switch c.AttachmentMode {
		case VolumeAttachFilesystem, VolumeAttachBlockDevice:
		default:
			return fmt.Errorf("attachment_mode in capability is %q: use file-system or block-device", c.AttachmentMode)
		}
		switch c.AccessMode {
		case VolumeSingleNodeReader, VolumeSingleNodeWriter, VolumeSingleNodeSingleWriter, VolumeSingleNodeMultiWriter:
		default:
			return fmt.Errorf("access_mode in capability is %q: use single-node-reader-only, single-node-writer, single-node-single-writer or single-node-multi-writer", c.AccessMode)
		}
	}
	return nil
}

func (v *HostVolume) validateConstraints() error {
	if len(v.Constraints) > maxVolumeRules {
		return fmt.Errorf("%d constraint blocks: use at most %d", len(v.Constraints), maxVolumeRules)
	}
	for _, c := range v.Constraints {
		switch {
		case c == nil:
			return fmt.Errorf("an empty constraint: remove it")
		case c.Operand == ConstraintDistinctHosts || c.Operand == ConstraintDistinctProperty:
			return fmt.Errorf("constraint %s compares allocations, which a volume does not have: remove it", c.Operand)
		}
	}
	return nil
}

func (v *HostVolume) validateParameters() error {
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

// CheckHostPath returns an error unless the path of a registered volume is absolute and has no ".." parts.
func CheckHostPath(p string) error {
	switch {
	case p == "":
		return Errorf(400, "cannot register volume: host path is required: set host_path")
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0):
		return Errorf(400, "cannot register volume: host_path is %q: use an absolute path without \"..\", double slashes and a slash at the end", p)
	}
	return nil
}

// Succeeds checks a new version of a volume against the stored one, and copies the fields that an update cannot change.
func (v *HostVolume) Succeeds(old *HostVolume) error {
	switch {
	case v.Name != old.Name:
		return Errorf(400, "cannot update volume %s: its name %q cannot change", old.ID, old.Name)
	case v.NodeID != "" && v.NodeID != old.NodeID:
		return Errorf(400, "cannot update volume %s: its node ID %s cannot change", old.ID, old.NodeID)
	case v.NodePool != "" && v.NodePool != old.NodePool:
		return Errorf(400, "cannot update volume %s: its node pool %q cannot change", old.ID, old.NodePool)
	case v.PluginID != "" && v.PluginID != old.PluginID:
		return Errorf(400, "cannot update volume %s: its plugin ID %q cannot change", old.ID, old.PluginID)
	case v.RequestedCapacityMaxBytes > 0 && v.RequestedCapacityMaxBytes < old.CapacityBytes:
		return Errorf(400, "cannot update volume %s: capacity_max (%d) is less than the capacity that it has (%d)", old.ID, v.RequestedCapacityMaxBytes, old.CapacityBytes)
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

// Followed returns the state of the volume after a change of its node:
//
//	pending ──the ready node has it──▶ ready ──the node is down or lacks it──▶ unavailable
//	                                     ▲                                         │
//	                                     └────────the ready node has it────────────┘
func (v *HostVolume) Followed(n *Node) HostVolumeState {
	have := n.HostVolumes[v.Name]
	present := have != nil && have.ID == v.ID
	switch {
	case present && n.Status == NodeStatusReady:
		return HostVolumeStateReady
	case v.State != HostVolumeStateReady:
		return v.State
	case n.Status == NodeStatusDown, len(n.HostVolumes) > 0 && !present:
		return HostVolumeStateUnavailable
	}
	return v.State
}

// Serves reports whether the volume serves the request of a group in the namespace. It does not check the
// writers of other allocations and the claims.
func (v *HostVolume) Serves(r *VolumeRequest, namespace string) bool {
	if v.Namespace != namespace || v.State != HostVolumeStateReady {
		return false
	}
	want := r.capability()
	has := slices.ContainsFunc(v.RequestedCapabilities, func(c *HostVolumeCapability) bool { return c != nil && *c == want })
	switch {
	case !has:
		return false
	case want.AccessMode == VolumeSingleNodeReader:
		return r.ReadOnly
	case want.AccessMode == VolumeSingleNodeWriter:
		return !r.ReadOnly
	}
	return true
}

// capability returns the modes that the request asks for, with their defaults.
func (v *VolumeRequest) capability() HostVolumeCapability {
	c := HostVolumeCapability{AttachmentMode: v.AttachmentMode, AccessMode: v.AccessMode}
	if c.AttachmentMode == "" {
		c.AttachmentMode = VolumeAttachFilesystem
	}
	if c.AccessMode == "" {
		c.AccessMode = VolumeSingleNodeWriter
		if v.ReadOnly {
			c.AccessMode = VolumeSingleNodeReader
		}
	}
	return c
}

// SingleWriter reports whether at most one allocation may have this read-write request for a volume.
func (v *VolumeRequest) SingleWriter() bool {
	return v.AccessMode == VolumeSingleNodeSingleWriter
}

// WritesHostVolume reports whether the allocation, of the version of its job, may write to the host volume.
func (a *Allocation) WritesHostVolume(volume string, j *Job) bool {
	return a.requests(j, func(v *VolumeRequest) bool { return !v.Reads() && v.SourceFor(a.Name) == volume })
}

// WrittenHostVolumes returns the host volumes that the allocation, of the version of its job, may write to.
func (a *Allocation) WrittenHostVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		if source := v.SourceFor(a.Name); !v.Reads() && !slices.Contains(volumes, source) {
			volumes = append(volumes, source)
		}
		return false
	})
	return volumes
}

// SingleWriterVolumes returns the host volumes that the allocation, of the version of its job, writes to alone.
func (a *Allocation) SingleWriterVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		if v.SingleWriter() && !v.ReadOnly {
			volumes = append(volumes, v.SourceFor(a.Name))
		}
		return false
	})
	return volumes
}

// HostVolumes returns the names of the host volumes that the allocation, of the version of its job, requests.
func (a *Allocation) HostVolumes(j *Job) (volumes []string) {
	a.requests(j, func(v *VolumeRequest) bool {
		volumes = append(volumes, v.SourceFor(a.Name))
		return false
	})
	return volumes
}

// UsesHostVolume reports whether the allocation requests the host volume with the name.
func (a *Allocation) UsesHostVolume(name string) bool {
	return a.requests(a.Job, func(v *VolumeRequest) bool { return v.SourceFor(a.Name) == name })
}

// requests reports whether is returns true for a request for a host volume of the allocation's group.
func (a *Allocation) requests(j *Job, is func(*VolumeRequest) bool) bool {
	if j == nil {
		return false
	}
	tg := j.TaskGroup(a.TaskGroup)
	if tg == nil {
		return false
	}
	for _, v := range tg.Volumes {
		if v != nil && v.Type == VolumeTypeHost && is(v) {
			return true
		}
	}
	return false
}
