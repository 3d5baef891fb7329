package testconsul

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

// datacenter is the only one.
const datacenter = "dc1"

// nodeID is the ID of the only node.
const nodeID = "40e4a748-2192-161a-0510-9bf59fe950b5"

// nodeAddress is the address of the only node.
func (a *Agent) nodeAddress() string {
	host, _, _ := strings.Cut(a.addr, ":")
	return host
}

func (a *Agent) node() *api.Node {
	address := a.nodeAddress()
	return &api.Node{ID: nodeID, Node: a.cfg.Node, Address: address, Datacenter: datacenter,
		TaggedAddresses: map[string]string{"lan": address, "lan_ipv4": address, "wan": address, "wan_ipv4": address},
		Meta:            map[string]string{"consul-network-segment": ""}, CreateIndex: firstIndex, ModifyIndex: firstIndex}
}

// agentSelf serves the description of the agent.
func agentSelf(c *call) (any, error) {
	a := c.a
	if err := c.need("read", "agent", a.cfg.Node); err != nil {
		return nil, err
	}
	self := Self{
		"Config": {"Datacenter": datacenter, "PrimaryDatacenter": datacenter, "NodeName": a.cfg.Node, "NodeID": nodeID, "Server": true,
			"Revision": "920cc7c6", "Version": a.cfg.Version},
		"DebugConfig": {"ConnectEnabled": true, "GRPCPort": 8502, "GRPCTLSPort": 8503, "DNSPort": 8600,
			"DNSAddrs": []string{"tcp://127.0.0.1:8600", "udp://127.0.0.1:8600"}, "ACLsEnabled": a.cfg.ACL},
		"Member": {"Name": a.cfg.Node, "Addr": a.nodeAddress(), "Port": 8301, "Status": 1,
			"Tags": map[string]string{"role": "consul", "dc": datacenter, "build": a.cfg.Version + ":920cc7c6", "segment": ""}},
		"Stats": {"agent": map[string]string{"services": "0"}, "build": map[string]string{"version": a.cfg.Version}},
		"xDS":   {"SupportedProxies": map[string][]string{"envoy": {"1.35.3", "1.34.7"}}},
	}
	if a.cfg.Self != nil {
		a.cfg.Self(self)
	}
	return self, nil
}

// agentMembers serves the members of the gossip pool that the caller may read: the only node.
func agentMembers(c *call) (any, error) {
	out := []*api.AgentMember{}
	if c.who.allow("read", "node", c.a.cfg.Node) {
		out = append(out, &api.AgentMember{Name: c.a.cfg.Node, Addr: c.a.nodeAddress(), Port: 8301, Status: 1,
			Tags: map[string]string{"role": "consul", "dc": datacenter, "build": c.a.cfg.Version + ":920cc7c6"}})
	}
	return out, nil
}

func agentMetrics(c *call) (any, error) {
	if err := c.need("read", "agent", c.a.cfg.Node); err != nil {
		return nil, err
	}
	return &api.MetricsInfo{Gauges: []api.GaugeValue{{Name: "consul.members.servers", Value: 1}}}, nil
}

func catalogDatacenters(c *call) (any, uint64, error) {
	return []string{datacenter}, c.a.base, nil
}

func catalogNodes(c *call) (any, uint64, error) {
	out := []*api.Node{}
	if c.who.allow("read", "node", c.a.cfg.Node) {
		out = append(out, c.a.node())
	}
	return out, c.a.base, nil
}

func catalogNode(c *call) (any, uint64, error) {
	index := c.a.at("services")
	if c.PathValue("name") != c.a.cfg.Node || !c.who.allow("read", "node", c.a.cfg.Node) {
		return (*api.CatalogNode)(nil), index, nil
	}
	out := &api.CatalogNode{Node: c.a.node(), Services: map[string]*api.AgentService{}}
	for id, s := range c.a.services {
		if c.who.allow("read", "service", s.Service) {
			out.Services[id] = s
		}
	}
	return out, index, nil
}

func catalogServices(c *call) (any, uint64, error) {
	out := map[string][]string{}
	if c.who.allow("read", "service", "consul") {
		out["consul"] = []string{}
	}
	for _, s := range c.a.services {
		if !c.who.allow("read", "service", s.Service) {
			continue
		}
		tags := slices.Concat(out[s.Service], s.Tags)
		slices.Sort(tags)
		out[s.Service] = slices.Compact(tags)
		if out[s.Service] == nil {
			out[s.Service] = []string{}
		}
	}
	return out, c.a.at("services"), nil
}

// instances returns the services that a function selects, which the caller may read and which have the tags of the
// query. They are sorted by ID.
func (c *call) instances(selected func(*api.AgentService) bool) (out []*api.AgentService) {
	if !c.who.allow("read", "node", c.a.cfg.Node) {
		return nil
	}
	tags := c.URL.Query()["tag"]
	for _, id := range slices.Sorted(maps.Keys(c.a.services)) {
		s := c.a.services[id]
		lacks := func(tag string) bool { return !slices.Contains(s.Tags, tag) }
		if selected(s) && c.who.allow("read", "service", s.Service) && !slices.ContainsFunc(tags, lacks) {
			out = append(out, s)
		}
	}
	return out
}

// named returns the instances with the name of the path.
func (c *call) named() []*api.AgentService {
	name := c.PathValue("name")
	return c.instances(func(s *api.AgentService) bool { return s.Service == name })
}

func catalogService(c *call) (any, uint64, error) {
	node := c.a.node()
	out := []*api.CatalogService{}
	for _, s := range c.named() {
		out = append(out, &api.CatalogService{ID: node.ID, Node: node.Node, Address: node.Address, Datacenter: datacenter,
			TaggedAddresses: node.TaggedAddresses, NodeMeta: node.Meta, ServiceID: s.ID, ServiceName: s.Service, ServiceAddress: s.Address,
			ServiceTaggedAddresses: s.TaggedAddresses, ServiceTags: s.Tags, ServiceMeta: s.Meta, ServicePort: s.Port,
			ServiceWeights: api.Weights(s.Weights), ServiceEnableTagOverride: s.EnableTagOverride, ServiceProxy: s.Proxy,
			CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex})
	}
	return out, c.a.at("service/" + c.PathValue("name")), nil
}

func healthService(c *call) (any, uint64, error) {
	return c.entries(c.named()), c.a.at("service/" + c.PathValue("name")), nil
}

// healthConnect lists the proxies of a service, and its instances that are native.
func healthConnect(c *call) (any, uint64, error) {
	name := c.PathValue("name")
	list := c.instances(func(s *api.AgentService) bool {
		return s.Proxy != nil && s.Proxy.DestinationServiceName == name || s.Service == name && s.Connect != nil && s.Connect.Native
	})
	return c.entries(list), c.a.at("services"), nil
}

// entries returns instances with their checks. With ?passing, instances with other checks are left out.
func (c *call) entries(list []*api.AgentService) []*api.ServiceEntry {
	out := []*api.ServiceEntry{}
	passing := c.URL.Query().Has("passing")
	for _, s := range list {
		e := &api.ServiceEntry{Node: c.a.node(), Service: s, Checks: c.a.healthOf(s)}
		if !passing || e.Checks.AggregatedStatus() == api.HealthPassing {
			out = append(out, e)
		}
	}
	return out
}

// healthOf returns the checks of an instance and of its node.
func (a *Agent) healthOf(s *api.AgentService) api.HealthChecks {
	out := api.HealthChecks{{Node: a.cfg.Node, CheckID: "serfHealth", Name: "Serf Health Status", Status: api.HealthPassing,
		Output: "Agent alive and reachable", CreateIndex: firstIndex, ModifyIndex: firstIndex}}
	for _, id := range slices.Sorted(maps.Keys(a.checks)) {
		k := a.checks[id]
		if k.ServiceID != "" && k.ServiceID != s.ID {
			continue
		}
		l := a.listed(k)
		out = append(out, &api.HealthCheck{Node: l.Node, CheckID: l.CheckID, Name: l.Name, Status: l.Status, Notes: l.Notes, Output: l.Output,
			ServiceID: l.ServiceID, ServiceName: l.ServiceName, ServiceTags: s.Tags, Type: l.Type, Definition: l.Definition,
			CreateIndex: k.index, ModifyIndex: k.index})
	}
	return out
}

// writeConfig serves the write of a config entry, such as the one of a gateway.
func writeConfig(c *call) (any, error) {
	entry := map[string]any{}
	if err := c.decode(&entry); err != nil {
		return nil, err
	}
	kind, _ := entry["Kind"].(string)
	name, _ := entry["Name"].(string)
	if _, err := api.DecodeConfigEntry(entry); err != nil || name == "" {
		return nil, c.invalid("Request decoding failed: kind %q, name %q: %v", kind, name, err)
	}
	if err := c.need("write", "operator", ""); err != nil {
		return nil, err
	}
	c.a.config[kind+"/"+name] = entry
	c.a.touch("config/" + kind + "/" + name)
	return true, nil
}

func readConfig(c *call) (any, uint64, error) {
	at := c.PathValue("kind") + "/" + c.PathValue("name")
	index := c.a.at("config/" + at)
	if entry := c.a.config[at]; entry != nil {
		return entry, index, nil
	}
	return nil, index, refuse(http.StatusNotFound, "Config entry not found for %q", at)
}
