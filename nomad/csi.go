package nomad

import "time"

// CSIControllerInfo lists what a CSI controller plugin can do. The client writes it
// when it fingerprints the plugin.
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

// CSIInfo is what a node says about a CSI plugin.
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

// CSIMountOptions are the file system and mount flags of a CSI volume. The flags may
// hold passwords and are never logged.
type CSIMountOptions struct {
	FSType     string
	MountFlags []string
}

// CSINodeInfo lists what a CSI node plugin can do.
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

// CSITopology is a place in the topology of a storage provider.
type CSITopology struct {
	Segments map[string]string
}

// TaskCSIPluginConfig makes a task the CSI plugin of its node.
type TaskCSIPluginConfig struct {
	ID                  string
	Type                CSIPluginType
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
}
