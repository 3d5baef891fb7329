package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// profileRoutes returns the routes of profiles and of facts about a host.
func profileRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/agent/host", Handle: web.Read("Agent.Host", func(r *web.Request, q *message.HostDataRequest) error {
			q.NodeID, q.ServerID = r.Query.Get("node_id"), r.Query.Get("server_id")
			return nil
		}, hostFacts)},
		{Methods: "GET PUT POST", Path: "/v1/agent/pprof/:profile", Changes: true, Handle: agentProfile},
	}
}

// hostFacts returns the facts about a host in both forms of Nomad: the agent's own at the root, and those of another agent in
// HostData.
func hostFacts(o *message.HostDataResponse) (any, error) {
	h := o.HostData
	if h == nil {
		h = &message.HostData{}
	}
	return struct {
		AgentID  string
		HostData *message.HostData

		OS          string
		Network     []map[string]string
		ResolvConf  string
		Hosts       string
		Environment map[string]string
		Disk        map[string]message.DiskUsage
	}{o.AgentID, h, h.OS, h.Network, h.ResolvConf, h.Hosts, h.Environment, h.Disk}, nil
}

// profileKinds maps the profiles that are not looked up by name to their types.
var profileKinds = map[string]string{"cmdline": message.ProfileCmdline, "profile": message.ProfileCPU, "trace": message.ProfileTrace}

// agentProfile replies with a profile of this agent, of a server or of a node.
func agentProfile(r *web.Request) (any, error) {
	q := message.AgentPprofRequest{ReqType: profileKinds[r.Param], NodeID: r.Query.Get("node_id"), ServerID: r.Query.Get("server_id")}
	if q.ReqType == "" {
		q.ReqType, q.Profile = message.ProfileLookup, r.Param
	}
	if strings.Contains(r.Param, "/") {
		return nil, apierror.Errorf(http.StatusNotFound, "Unknown profile %q", r.Param)
	}
	if err := r.ReadOptions(&q.QueryOptions); err != nil {
		return nil, err
	}
	for name, to := range map[string]*int{"seconds": &q.Seconds, "debug": &q.Debug, "gc": &q.GC} {
		n, err := r.Number(name)
		if err != nil {
			return nil, err
		}
		if n < 0 || n > 1<<16 {
			return nil, apierror.Errorf(http.StatusBadRequest, "%s = %d is out of range", name, n)
		}
		*to = int(n)
	}
	var out message.AgentPprofResponse
	if err := r.RPC().Call(r.Context(), "Agent.Profile", &q, &out); err != nil {
		return nil, err
	}
	return nil, sendProfile(r, &out)
}

// sendProfile writes a profile. Another agent made it, so its headers are not copied.
func sendProfile(r *web.Request, p *message.AgentPprofResponse) error {
	h := r.Reply.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if strings.HasPrefix(p.HTTPHeaders["Content-Type"], "text/plain") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", r.Param))
	}
	if _, err := r.Reply.Write(p.Payload); err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return web.ErrDone
}
