package consulapi

import (
	"cmp"
	"net/netip"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// serfHealth is the ID of the check of a node. Clients of Consul recognise it.
const serfHealth = "serfHealth"

// nodeOf returns the node of an instance.
func nodeOf(in *catalog.Instance) node {
	return node{ID: in.NodeID, Node: nameOf(in.NodeName, in.NodeID), Address: in.NodeAddress, Datacenter: in.Datacenter,
		TaggedAddresses: nodeAddresses(in.NodeAddress), Meta: orEmpty(in.NodeMeta)}
}

// nodeOfStub returns the node of a row of a node list.
func nodeOfStub(stub *nomad.NodeListStub) node {
	return node{ID: stub.ID, Node: nameOf(stub.Name, stub.ID), Address: stub.Address, Datacenter: stub.Datacenter,
		TaggedAddresses: nodeAddresses(stub.Address), Meta: orEmpty(stub.Meta), CreateIndex: stub.CreateIndex, ModifyIndex: stub.ModifyIndex}
}

// nameOf returns the name of a node. A node without a name has its ID.
func nameOf(name, id string) string { return cmp.Or(name, id) }

// serviceOf returns the service of an instance.
func serviceOf(in *catalog.Instance) service {
	return service{ID: in.ID, Service: in.ServiceName, Tags: tagsOf(in), Meta: orEmpty(in.Meta), Port: in.Port, Address: in.Address,
		TaggedAddresses: serviceAddresses(in), Weights: weightsOf(in), EnableTagOverride: in.EnableTagOverride,
		Namespace: in.Namespace, CreateIndex: in.CreateIndex, ModifyIndex: in.ModifyIndex}
}

// catalogServiceOf returns an instance as one object.
func catalogServiceOf(in *catalog.Instance) catalogService {
	n := nodeOf(in)
	return catalogService{ID: n.ID, Node: n.Node, Address: n.Address, Datacenter: n.Datacenter, TaggedAddresses: n.TaggedAddresses,
		NodeMeta: n.Meta, ServiceID: in.ID, ServiceName: in.ServiceName, ServiceTags: tagsOf(in), ServiceAddress: in.Address,
		ServiceTaggedAddresses: serviceAddresses(in), ServiceWeights: weightsOf(in), ServiceMeta: orEmpty(in.Meta), ServicePort: in.Port,
		ServiceEnableTagOverride: in.EnableTagOverride, Namespace: in.Namespace, CreateIndex: in.CreateIndex, ModifyIndex: in.ModifyIndex}
}

// entryOf returns an instance with its node and its checks.
func entryOf(in *catalog.Instance) serviceEntry {
	return serviceEntry{Node: nodeOf(in), Service: serviceOf(in), Checks: append([]check{instanceNodeCheck(in)}, checksOf(in)...)}
}

// instanceNodeCheck returns the check of the node of an instance. A server that has the node but sends no status is of a
// version that hides nothing else about it: the services of the node are not withheld.
func instanceNodeCheck(in *catalog.Instance) check {
	status := in.NodeStatus
	if status == "" && in.NodeName != "" {
		status = nomad.NodeStatusReady
	}
	return nodeCheck(nameOf(in.NodeName, in.NodeID), status)
}

// checksOf returns the checks of the service of an instance. A client of an older version reports the status only.
func checksOf(in *catalog.Instance) []check {
	base := check{Node: nameOf(in.NodeName, in.NodeID), ServiceID: in.ID, ServiceName: in.ServiceName, ServiceTags: tagsOf(in),
		Namespace: in.Namespace, CreateIndex: in.CreateIndex, ModifyIndex: in.ModifyIndex}
	out := []check{}
	for _, c := range in.Checks {
		next := base
		next.CheckID, next.Name, next.Type, next.Status, next.Output = c.ID, c.Name, c.Type, string(c.Status), c.Output
		if next.Status == "" {
			next.Status = string(catalog.Critical) // the check has not run
		}
		out = append(out, next)
	}
	if len(out) == 0 && in.Health() != catalog.Passing {
		base.CheckID, base.Name, base.Status = "service:"+in.ID, "Service status", string(in.Health())
		out = append(out, base)
	}
	return out
}

// nodeCheck returns the check of a node: passing while the node is ready.
func nodeCheck(name, status string) check {
	c := check{Node: name, CheckID: serfHealth, Name: "Serf Health Status", Status: string(catalog.Critical), ServiceTags: []string{},
		Output: "the node is " + status}
	switch status {
	case nomad.NodeStatusReady:
		c.Status = string(catalog.Passing)
	case "":
		c.Output = "the node does not exist"
	}
	return c
}

// severity orders the statuses, the worst last. An unknown one is critical.
func severity(status string) int {
	switch catalog.Status(status) {
	case catalog.Passing:
		return 0
	case catalog.Warning:
		return 1
	}
	return 2
}

// worst returns the worst status of checks: passing without a check.
func worst(checks []check) string {
	out := string(catalog.Passing)
	for _, c := range checks {
		if severity(c.Status) > severity(out) {
			out = c.Status
		}
	}
	return out
}

// tagsOf returns the tags of an instance, never nil.
func tagsOf(in *catalog.Instance) []string {
	if in.Tags == nil {
		return []string{}
	}
	return in.Tags
}

// weightsOf returns the weights of an instance, 1 and 1 without any.
func weightsOf(in *catalog.Instance) weights {
	if in.Weights == nil {
		return weights{1, 1}
	}
	return weights{in.Weights.Passing, in.Weights.Warning}
}

// serviceAddresses returns the named addresses of an instance. Those of Consul are added to those of the job.
func serviceAddresses(in *catalog.Instance) map[string]serviceAddress {
	out := map[string]serviceAddress{}
	if family := familyOf(in.Address); family != "" {
		out["lan_"+family] = serviceAddress{in.Address, in.Port}
		out["wan_"+family] = serviceAddress{in.Address, in.Port}
	}
	for name, a := range in.TaggedAddresses {
		out[name] = serviceAddress{a.Address, a.Port}
	}
	return out
}

// nodeAddresses returns the named addresses of a node, as Consul names them.
func nodeAddresses(address string) map[string]string {
	out := map[string]string{}
	if address == "" {
		return out
	}
	out["lan"], out["wan"] = address, address
	if family := familyOf(address); family != "" {
		out["lan_"+family], out["wan_"+family] = address, address
	}
	return out
}

// familyOf returns ipv4 or ipv6, or "" for a name.
func familyOf(address string) string {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case ip.Is4():
		return "ipv4"
	}
	return "ipv6"
}

// orEmpty returns a map that is encoded as {} if it is nil.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
