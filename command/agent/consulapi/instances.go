package consulapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// scope selects instances. The zero value selects all of the namespace.
type scope struct{ service, node string }

// instances returns the instances of a scope in this datacenter, with the node-meta of the query, sorted. The RPC blocks
// if the round does.
func (c *call) instances(of scope) ([]*catalog.Instance, error) {
	req := message.ServiceInstancesRequest{ServiceName: of.service, NodeID: of.node, QueryOptions: c.opts}
	var resp message.ServiceInstancesResponse
	if err := c.RPC().Call(c.Context(), "ServiceRegistration.Instances", &req, &resp); err != nil {
		return nil, err
	}
	c.note(resp.QueryMeta)
	out := slices.DeleteFunc(resp.Instances, func(in *catalog.Instance) bool {
		return in.Datacenter != c.server.cfg.Datacenter || !contains(in.NodeMeta, c.nodeMeta)
	})
	slices.SortStableFunc(out, func(a, b *catalog.Instance) int {
		return cmp.Or(c.distance(a.NodeID, a.NodeName)-c.distance(b.NodeID, b.NodeName), cmp.Compare(a.NodeName, b.NodeName),
			cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// distance returns 0 for the node of the parameter near, and 1 for others. Without the parameter it is the same for all.
// The region keeps no round-trip times.
func (c *call) distance(id, name string) int {
	if c.near == "" {
		return 0
	}
	own := c.near == "_agent" || c.near == "_ip" // a caller of the loopback address is on this node
	if own && id == c.server.cfg.NodeID || !own && (name == c.near || id == c.near) {
		return 0
	}
	return 1
}

// contains reports whether a map has all pairs.
func contains(m, pairs map[string]string) bool {
	for key, value := range pairs {
		if got, ok := m[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// tagged returns the instances that have all tags of the query. Case is ignored, as in Consul.
func (c *call) tagged(list []*catalog.Instance) []*catalog.Instance {
	return slices.DeleteFunc(list, func(in *catalog.Instance) bool {
		return slices.ContainsFunc(c.tags, func(tag string) bool {
			return !slices.ContainsFunc(in.Tags, func(own string) bool { return strings.ToLower(own) == tag })
		})
	})
}

// nodes returns the nodes of this datacenter with the node-meta of the query, sorted. Callers need node:read.
func (c *call) nodes(opts message.QueryOptions) ([]*nomad.NodeListStub, error) {
	opts.Namespace = ""
	req := message.NodeListRequest{QueryOptions: opts, Fields: &nomad.NodeStubFields{Meta: true}}
	var resp message.NodeListResponse
	if err := c.RPC().Call(c.Context(), "Node.List", &req, &resp); err != nil {
		return nil, err
	}
	c.note(resp.QueryMeta)
	out := slices.DeleteFunc(resp.Nodes, func(n *nomad.NodeListStub) bool {
		return n.Datacenter != c.server.cfg.Datacenter || !contains(n.Meta, c.nodeMeta)
	})
	slices.SortStableFunc(out, func(a, b *nomad.NodeListStub) int {
		return cmp.Or(c.distance(a.ID, a.Name)-c.distance(b.ID, b.Name), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// node returns the node with a name or an ID, nil if none has it. Of several, it prefers one that is ready.
func (c *call) node(name string) (*nomad.NodeListStub, error) {
	all, err := c.nodes(c.instant())
	if err != nil {
		return nil, err
	}
	var found *nomad.NodeListStub
	for _, n := range all {
		switch {
		case n.ID == name:
			return n, nil
		case n.Name != name:
		case found == nil, found.Status != nomad.NodeStatusReady && n.Status == nomad.NodeStatusReady:
			found = n
		}
	}
	return found, nil
}
