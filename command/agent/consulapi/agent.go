package consulapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// agentSelf describes the agent. Callers need agent:read, or are workloads, whose environment has the same.
func agentSelf(c *call) (*answer, error) {
	if err := c.Ask(web.Either(web.Needs(acl.ToRead(acl.Agents)), web.Workloads)); err != nil {
		return nil, err
	}
	cfg := &c.server.cfg
	host, port, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return &answer{body: map[string]any{
		"Config": map[string]any{"Datacenter": cfg.Datacenter, "PrimaryDatacenter": cfg.Datacenter, "NodeName": cfg.NodeName,
			"NodeID": cfg.NodeID, "Server": false, "Version": cfg.Version, "Revision": cfg.Revision},
		"DebugConfig": map[string]any{"ConnectEnabled": false, "GRPCPort": -1, "GRPCTLSPort": -1, "DNSPort": -1},
		"Member":      member{Name: cfg.NodeName, Addr: host, Port: number, Tags: memberTags(cfg.NodeID, cfg.Datacenter), Status: alive},
		"Meta":        map[string]string{},
		"Stats":       map[string]any{},
		"xDS":         map[string]any{"SupportedProxies": map[string][]string{}},
	}}, nil
}

// The statuses of a member.
const (
	alive  = 1
	failed = 4
)

type member struct {
	Name   string
	Addr   string
	Port   int
	Tags   map[string]string
	Status int
}

// memberTags returns the tags of a member by which Consul tells clients from servers.
func memberTags(id, datacenter string) map[string]string {
	return map[string]string{"role": "node", "id": id, "dc": datacenter}
}

// agentMembers returns the nodes of the datacenter as members.
func agentMembers(c *call) (*answer, error) {
	list, err := c.nodes(c.opts)
	if err != nil {
		return nil, err
	}
	return filtered(c, each(list, func(n *nomad.NodeListStub) member {
		m := member{Name: nameOf(n.Name, n.ID), Addr: n.Address, Tags: memberTags(n.ID, n.Datacenter), Status: failed}
		if n.Status == nomad.NodeStatusReady {
			m.Status = alive
		}
		return m
	}))
}

// own returns the instances of this node. It does not block, as in Consul.
func (c *call) own(of scope) ([]*catalog.Instance, error) {
	of.node = c.server.cfg.NodeID
	return c.instances(of)
}

// agentServices returns the services of this node by ID.
func agentServices(c *call) (*answer, error) {
	list, err := c.own(scope{})
	if err != nil {
		return nil, err
	}
	rows, err := match(c.filter, each(list, agentServiceOf))
	if err != nil {
		return nil, err
	}
	out := map[string]service{}
	for _, s := range rows {
		out[s.ID] = s
	}
	return &answer{body: out}, nil
}

// agentServiceOf returns an instance as a service of an agent, which has its datacenter.
func agentServiceOf(in *catalog.Instance) service {
	s := serviceOf(in)
	s.Datacenter = in.Datacenter
	return s
}

// agentService returns one service of this node.
func agentService(c *call) (*answer, error) {
	in, err := c.ownByID()
	if err != nil {
		return nil, err
	}
	s := agentServiceOf(in)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	s.ContentHash = hex.EncodeToString(sum[:8])
	return &answer{body: s}, nil
}

// ownByID returns the instance of this node with the ID of the path.
func (c *call) ownByID() (*catalog.Instance, error) {
	list, err := c.own(scope{})
	if err != nil {
		return nil, err
	}
	for _, in := range list {
		if in.ID == c.Param {
			return in, nil
		}
	}
	return nil, apierror.Errorf(http.StatusNotFound, "unknown service ID %.256q of this agent", c.Param)
}

// agentChecks returns the checks of the services of this node by ID.
func agentChecks(c *call) (*answer, error) {
	list, err := c.own(scope{})
	if err != nil {
		return nil, err
	}
	rows := []check{}
	for _, in := range list {
		rows = append(rows, checksOf(in)...)
	}
	if rows, err = match(c.filter, rows); err != nil {
		return nil, err
	}
	out := map[string]check{}
	for _, row := range rows {
		out[row.CheckID] = row
	}
	return &answer{body: out}, nil
}

// healthCode returns the HTTP status for the health of a service.
func healthCode(status string) int {
	switch severity(status) {
	case 0:
		return http.StatusOK
	case 1:
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// agentHealthByName returns the health of the instances of a service on this node. The HTTP status is that of the worst.
func agentHealthByName(c *call) (*answer, error) {
	list, err := c.own(scope{service: c.Param})
	if err != nil {
		return nil, err
	}
	status := string(catalog.Passing)
	for _, in := range list {
		if s := worst(entryOf(in).Checks); severity(s) > severity(status) {
			status = s
		}
	}
	a := &answer{status: healthCode(status), body: each(list, healthOf)}
	if len(list) == 0 {
		a.status, status = http.StatusNotFound, "no such service"
	}
	return c.inFormat(a, status), nil
}

// agentHealthByID returns the health of an instance on this node.
func agentHealthByID(c *call) (*answer, error) {
	in, err := c.ownByID()
	if err != nil {
		return nil, err
	}
	h := healthOf(in)
	return c.inFormat(&answer{status: healthCode(h.AggregatedStatus), body: h}, h.AggregatedStatus), nil
}

// healthOf returns the health of an instance with its service.
func healthOf(in *catalog.Instance) serviceHealth {
	e := entryOf(in)
	return serviceHealth{AggregatedStatus: worst(e.Checks), Service: e.Service, Checks: e.Checks}
}

// inFormat replaces the body by its status, if the request has format=text.
func (c *call) inFormat(a *answer, status string) *answer {
	if c.Query.Get("format") == "text" {
		a.body, a.raw, a.kind = nil, []byte(status), "text/plain; charset=utf-8"
	}
	return a
}

// statusLeader returns the address of the leader, "" if there is none.
func statusLeader(c *call) (*answer, error) {
	req := message.GenericRequest{QueryOptions: c.instant()}
	var out string
	err := c.RPC().Call(c.Context(), "Status.Leader", &req, &out)
	return &answer{body: out}, err
}

// statusPeers returns the addresses of the servers.
func statusPeers(c *call) (*answer, error) {
	req := message.GenericRequest{QueryOptions: c.instant()}
	out := []string{}
	err := c.RPC().Call(c.Context(), "Status.Peers", &req, &out)
	return &answer{body: out}, err
}
