package connect

import (
	"fmt"
	"strconv"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/nomad/connect"
)

// Node meta and the value without it: the port of the transparent proxy for connections of the tasks.
const (
	outboundMeta = "connect.transparent_proxy.default_outbound_port"
	outboundPort = 15001
)

// proxy returns the configuration of a sidecar that listens at a port. in may be nil.
func (p part) proxy(in *connect.Proxy, at port) (*api.AgentServiceConnectProxyConfig, error) {
	if in == nil {
		in = &connect.Proxy{}
	}
	expose, err := p.expose(in.Expose)
	if err != nil {
		return nil, err
	}
	out := &api.AgentServiceConnectProxyConfig{LocalServiceAddress: p.expand(in.LocalServiceAddress), LocalServicePort: in.LocalServicePort,
		Config: p.config(in.Config), Upstreams: p.upstreams(in.Upstreams), Expose: expose}
	out.Config["bind_address"], out.Config["bind_port"] = anyAddress(at.host), at.inside
	if _, own := out.Config["envoy_stats_tags"]; !own {
		out.Config["envoy_stats_tags"] = p.statsTags()
	}
	if t := in.TransparentProxy; t != nil {
		out.Mode = api.ProxyModeTransparent
		out.TransparentProxy = &api.TransparentProxyConfig{OutboundListenerPort: p.outbound(t)}
	}
	return out, nil
}

// statsTags are the tags of the proxy's own metrics.
func (p part) statsTags() []string {
	a := p.w.Alloc
	return []string{"nomad.alloc_id=" + a.ID, "nomad.group=" + a.TaskGroup, "nomad.job=" + a.JobID, "nomad.namespace=" + a.Namespace}
}

// outbound returns the port to which the network of the allocation redirects the connections of its tasks.
func (p part) outbound(t *connect.TransparentProxy) int {
	if t.OutboundPort != 0 {
		return int(t.OutboundPort)
	}
	if n, err := strconv.ParseUint(p.w.Node.Meta[outboundMeta], 10, 16); err == nil && n != 0 {
		return int(n)
	}
	return outboundPort
}

// expose returns the paths that the proxy serves without mutual TLS.
func (p part) expose(in *connect.ExposeConfig) (api.ExposeConfig, error) {
	var out api.ExposeConfig
	if in == nil {
		return out, nil
	}
	for _, path := range in.Paths {
		listener, err := p.port(path.ListenerPort)
		if err != nil {
			return out, fmt.Errorf("expose path %q: %w", path.Path, err)
		}
		out.Paths = append(out.Paths, api.ExposePath{Path: p.expand(path.Path), Protocol: p.expand(path.Protocol),
			LocalPathPort: path.LocalPathPort, ListenerPort: listener.inside})
	}
	return out, nil
}
