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
