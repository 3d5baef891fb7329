package api

import (
	"cmp"
	"net/url"
	"slices"
)

// CSIPlugin is a CSI plugin: all its instances on all nodes.
type CSIPlugin struct {
	ID                  string
	Provider            string
	Version             string
	ControllerRequired  bool
	Controllers         map[string]*CSIInfo // by node ID
	Nodes               map[string]*CSIInfo // by node ID
	Allocations         []*AllocationListStub
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64
}

// CSIPluginListStub is the short form of a CSI plugin in lists.
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

// CSIPlugins is the handle for CSI plugins.
type CSIPlugins struct{ client *Client }

// CSIPlugins returns the handle for CSI plugins.
func (c *Client) CSIPlugins() *CSIPlugins { return &CSIPlugins{c} }

// List lists the plugins, the newest first. The prefix of the options matches IDs.
func (p *CSIPlugins) List(q *QueryOptions) ([]*CSIPluginListStub, *QueryMeta, error) {
	out, meta, err := get[[]*CSIPluginListStub](p.client, "/v1/plugins", q.with(map[string]string{"type": "csi"}))
	slices.SortStableFunc(out, func(a, b *CSIPluginListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// Info returns a plugin with its instances and their allocations.
func (p *CSIPlugins) Info(id string, q *QueryOptions) (*CSIPlugin, *QueryMeta, error) {
	if id == "" {
		return nil, nil, missing("plugin ID")
	}
	return get[*CSIPlugin](p.client, "/v1/plugin/csi/"+url.PathEscape(id), q)
}
