package nomad

import (
	"math"
	"time"
)

// CSIControllerInfo lists the capabilities of a CSI controller plugin. The client writes it when it
// fingerprints the plugin.
type CSIControllerInfo struct {
	SupportsCreateDelete             bool
	SupportsAttachDetach             bool
	SupportsListVolumes              bool
	SupportsGetCapacity              bool
	SupportsCreateDeleteSnapshot     bool
	SupportsListSnapshots            bool
	SupportsClone                    bool
	SupportsReadOnlyAttach           bool
	SupportsExpand                   bool
	SupportsListVolumesAttachedNodes bool
	SupportsCondition                bool
	SupportsGet                      bool
}

// CSIInfo is a node's description of a CSI plugin.
type CSIInfo struct {
	PluginID                 string
	AllocID                  string
	Healthy                  bool
	HealthDescription        string
	UpdateTime               time.Time
	Provider                 string
	ProviderVersion          string
	RequiresControllerPlugin bool
	RequiresTopologies       bool
	ControllerInfo           *CSIControllerInfo
	NodeInfo                 *CSINodeInfo
}

// VolumeLimit returns how many volumes of the plugin the node can attach, or 0 if there is no limit.
func (i *CSIInfo) VolumeLimit() int64 {
	if i == nil || i.NodeInfo == nil || i.NodeInfo.MaxVolumes == math.MaxInt64 {
		return 0
	}
	return max(i.NodeInfo.MaxVolumes, 0)
}

// CSIMountOptions are the file system and mount flags of a CSI volume. The flags may contain passwords and
// are never logged.
type CSIMountOptions struct {
	FSType     string
	MountFlags []string
}

// CSINodeInfo lists the capabilities of a CSI node plugin.
type CSINodeInfo struct {
	ID                      string
	MaxVolumes              int64
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
}

// CSIPluginType is node, controller or monolith (both).
type CSIPluginType string

// CSITopology is a location in the topology of a storage provider.
type CSITopology struct {
	Segments map[string]string
}

// TaskCSIPluginConfig makes a task a CSI plugin of its node.
type TaskCSIPluginConfig struct {
	ID                  string
	Type                CSIPluginType
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
}
