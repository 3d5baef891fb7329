package migrate

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// tested is the version prefix of the tested Nomad builds.
const tested = "2.0."

// Server is a server in the region of the cluster.
type Server struct {
	Name   string
	Build  string
	Status string
	Leader bool
	Ours   bool // runs open-nomad
}

// Cluster is the information from an agent of the cluster. A string is "" if the agent does
// not show it.
type Cluster struct {
	Region  string
	Servers []Server
	// Enterprise reports whether a server is a build of Nomad Enterprise.
	Enterprise bool
	// RPCTLS is the key tls.rpc of the agent: "on" or "off".
	RPCTLS string
	// VerifyServerHostname is the key tls.verify_server_hostname: "on" or "off".
	VerifyServerHostname string
	// GossipEncryption is "on" or "off".
	GossipEncryption string
	// LogBackend is the key server.raft_logstore.backend.
	LogBackend string
	// Unknown lists failed requests with their errors.
	Unknown []string
}

// Ask queries an agent about its cluster, and returns the configuration that the agent shows, or
// nil. Requests that the token does not allow are listed in Unknown.
func Ask(ctx context.Context, c *api.Client) (out *Cluster, shown map[string]any) {
	out = &Cluster{Servers: []Server{}, Unknown: []string{}}
	self, err := c.Agent().Self()
	if err == nil {
		out.configured(self)
		shown = self.Config
	} else {
		out.Unknown = append(out.Unknown, fmt.Sprintf("configuration of the agent (needs agent:read): %v", err))
	}
	members, err := c.Agent().MembersOpts((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		out.Unknown = append(out.Unknown, fmt.Sprintf("servers (needs node:read): %v", err))
		return out, shown
	}
	out.Region = cmp.Or(out.Region, members.ServerRegion)
	leader, err := c.Status().RegionLeader(out.Region)
	if err != nil {
		out.Unknown = append(out.Unknown, fmt.Sprintf("leader: %v", err))
	}
	for _, m := range members.Members {
		if m.Tags["region"] != out.Region || m.Status == "left" {
			continue
		}
		build := m.Tags["build"]
		out.Servers = append(out.Servers, Server{Name: m.Name, Build: build, Status: m.Status,
			Leader: leader != "" && leader == net.JoinHostPort(m.Addr, m.Tags["port"]), Ours: m.Tags["project"] == message.Project})
		out.Enterprise = out.Enterprise || strings.Contains(build, "+ent")
	}
	slices.SortFunc(out.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return out, shown
}

// configured reads the configuration of an agent. Nomad and open-nomad use different names
// for some parts.
func (c *Cluster) configured(self *api.AgentSelf) {
	c.Region, _ = self.Config["Region"].(string)
	for _, name := range []string{"TLSConfig", "TLS"} {
		if tls, ok := self.Config[name].(map[string]any); ok {
			c.RPCTLS = cmp.Or(onOff(tls["EnableRPC"]), onOff(tls["RPC"]))
			c.VerifyServerHostname = onOff(tls["VerifyServerHostname"])
		}
	}
	if version, ok := self.Config["Version"].(map[string]any); ok {
		metadata, _ := version["VersionMetadata"].(string)
		c.Enterprise = strings.HasPrefix(metadata, "ent")
	}
	server, _ := self.Config["Server"].(map[string]any)
	for name, v := range server {
		if logs, ok := v.(map[string]any); ok && strings.Contains(strings.ToLower(name), "logstore") {
			c.LogBackend, _ = logs["Backend"].(string)
		}
	}
	switch self.Stats["serf"]["encrypted"] {
	case "true":
		c.GossipEncryption = "on"
	case "false":
		c.GossipEncryption = "off"
	}
}

func onOff(v any) string {
	switch v {
	case true:
		return "on"
	case false:
		return "off"
	}
	return ""
}

// untested lists the builds of servers that this version was not tested with.
func (c *Cluster) untested() []string {
	var out []string
	for _, s := range c.Servers {
		if !s.Ours && !strings.HasPrefix(s.Build, tested) && !slices.Contains(out, s.Build) {
			out = append(out, s.Build)
		}
	}
	return out
}
