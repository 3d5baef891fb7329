package consulapi

import (
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// each converts a list. The result is never nil.
func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}

// filtered returns the answer with the rows that the filter selects.
func filtered[T any](c *call, rows []T) (*answer, error) {
	rows, err := match(c.filter, rows)
	if err != nil {
		return nil, err
	}
	if rows == nil {
		rows = []T{} // [], not null
	}
	return &answer{body: rows}, nil
}

// catalogServices returns the names of the services with the tags of their instances.
func catalogServices(c *call) (*answer, error) {
	list, err := c.instances(scope{})
	if err != nil {
		return nil, err
	}
	rows, err := match(c.filter, each(list, catalogServiceOf))
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, row := range rows {
		out[row.ServiceName] = append(out[row.ServiceName], row.ServiceTags...)
	}
	for name, tags := range out {
		slices.Sort(tags)
		out[name] = append([]string{}, slices.Compact(tags)...)
	}
	return &answer{body: out}, nil
}

// catalogServiceByName returns the instances of a service.
func catalogServiceByName(c *call) (*answer, error) {
	list, err := c.instances(scope{service: c.Param})
	if err != nil {
		return nil, err
	}
	return filtered(c, each(c.tagged(list), catalogServiceOf))
}

// catalogNodes returns the nodes.
func catalogNodes(c *call) (*answer, error) {
	list, err := c.nodes(c.opts)
	if err != nil {
		return nil, err
	}
	return filtered(c, each(list, nodeOfStub))
}

// catalogNodeByName returns a node with its services by ID, null if it does not exist.
func catalogNodeByName(c *call) (*answer, error) {
	n, rows, err := c.servicesOfNode()
	if err != nil || n == nil {
		return nullOr(err)
	}
	out := catalogNode{nodeOfStub(n), map[string]service{}}
	for _, s := range rows {
		out.Services[s.ID] = s
	}
	return &answer{body: out}, nil
}

// catalogNodeServices returns a node with the list of its services, null if it does not exist.
func catalogNodeServices(c *call) (*answer, error) {
	n, rows, err := c.servicesOfNode()
	if err != nil || n == nil {
		return nullOr(err)
	}
	return &answer{body: nodeServices{nodeOfStub(n), rows}}, nil
}

// null is the answer about a node that does not exist.
type null struct{}

// MarshalJSON implements json.Marshaler.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func nullOr(err error) (*answer, error) { return &answer{body: null{}}, err }

// servicesOfNode returns the node of the path and its services, nil if it does not exist.
func (c *call) servicesOfNode() (*nomad.NodeListStub, []service, error) {
	stub, list, err := c.instancesOfNode()
	if err != nil || stub == nil {
		return nil, nil, err
	}
	rows, err := match(c.filter, each(list, serviceOf))
	return stub, rows, err
}

// instancesOfNode returns the node of the path and its instances. It reads two tables, and waits for changes of the second
// one. So the wait is short.
func (c *call) instancesOfNode() (*nomad.NodeListStub, []*catalog.Instance, error) {
	stub, err := c.node(c.Param)
	if err != nil {
		return nil, nil, err
	}
	c.opts.MaxQueryTime = min(c.opts.MaxQueryTime, lookAgain)
	if stub == nil { // an instance of no node makes the query wait
		_, err = c.instances(scope{node: c.Param})
		return nil, nil, err
	}
	list, err := c.instances(scope{node: stub.ID})
	if err != nil {
		return nil, nil, err
	}
	stub, err = c.node(stub.ID) // it may have changed while the query waited
	return stub, list, err
}

// datacenters returns the datacenter of the agent.
func datacenters(c *call) (*answer, error) {
	return &answer{body: []string{c.server.cfg.Datacenter}}, nil
}

// none returns an empty list: the mesh and the coordinates of Consul do not exist. No RPC checks the token, so that a
// blocking query needs a right here. Otherwise callers with invented tokens could occupy all blocking queries.
func none(c *call) (*answer, error) {
	if c.index > 0 {
		if err := c.Ask(web.Needs(acl.InNamespace(c.namespace, acl.ReadJob))); err != nil {
			return nil, err
		}
	}
	return &answer{body: []string{}}, nil
}
