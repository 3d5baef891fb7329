package message

// CSIPluginListRequest is the request of CSIPlugin.List.
type CSIPluginListRequest struct {
	QueryOptions
}

// CSIPluginListResponse is the reply of CSIPlugin.List.
type CSIPluginListResponse struct {
	Plugins []*CSIPluginListStub
	QueryMeta
}

// CSIPluginListStub is a CSI plugin in a list.
type CSIPluginListStub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
}

// CSIVolumeListRequest is the request of CSIVolume.List.
type CSIVolumeListRequest struct {
	PluginID string
	NodeID   string
	QueryOptions
}

// CSIVolumeListResponse is the reply of CSIVolume.List.
type CSIVolumeListResponse struct {
	Volumes []*CSIVolListStub
	QueryMeta
}

// CSIVolListStub is a CSI volume in a list. This version lists none.
type CSIVolListStub struct {
	ID        string
	Namespace string
	Name      string
	PluginID  string
}
