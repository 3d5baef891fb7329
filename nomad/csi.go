package nomad

import "time"

// CSIControllerInfo holds the fields of a csi controller info.
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

// CSIInfo holds the fields of a csi info.
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

// CSIMountOptions holds the fields of a csi mount options.
type CSIMountOptions struct {
	FSType     string
	MountFlags []string
}

// CSINodeInfo holds the fields of a csi node info.
type CSINodeInfo struct {
	ID                      string
	MaxVolumes              int64
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
}

// CSIPluginType holds the fields of a csi plugin type.
type CSIPluginType string

// CSITopology holds the fields of a csi topology.
type CSITopology struct {
	Segments map[string]string
}

// TaskCSIPluginConfig holds the fields of a task csi plugin config.
type TaskCSIPluginConfig struct {
	ID                  string
	Type                CSIPluginType
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
}
