package testconsul_test

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// TestMesh_Refused checks that parts of the mesh that Consul refuses are faults.
func TestMesh_Refused(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "")
	proxy := func(p api.AgentServiceConnectProxyConfig) api.AgentServiceRegistration {
		return api.AgentServiceRegistration{Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Proxy: &p}}}
	}
	upstreams := func(u ...api.Upstream) api.AgentServiceRegistration {
		return proxy(api.AgentServiceConnectProxyConfig{Upstreams: u})
	}
	for text, r := range map[string]api.AgentServiceRegistration{
		"unknown Kind":                     {Kind: "gateway"},
		"cannot be Connect":                {Kind: api.ServiceKindMeshGateway, Connect: &api.AgentServiceConnect{Native: true}},
		"Proxy is not allowed":             {Proxy: &api.AgentServiceConnectProxyConfig{}},
		"a destination, a local service":   {Kind: api.ServiceKindIngressGateway, Proxy: &api.AgentServiceConnectProxyConfig{LocalServicePort: 1}},
		"Kind, ID and Connect":             {Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{ID: "x"}}},
		"destination name cannot be empty": upstreams(api.Upstream{LocalBindPort: 1}),
		"must be defined":                  upstreams(api.Upstream{DestinationName: "db"}),
		"only one of":                      upstreams(api.Upstream{DestinationName: "db", LocalBindPort: 1, LocalBindSocketPath: "/x"}),
		"address of upstream db":           upstreams(api.Upstream{DestinationName: "db", LocalBindPort: 1}, api.Upstream{DestinationName: "log", LocalBindPort: 1}),
		"Invalid Proxy: mode":              proxy(api.AgentServiceConnectProxyConfig{TransparentProxy: &api.TransparentProxyConfig{}}),
		"Invalid Expose.Paths": proxy(api.AgentServiceConnectProxyConfig{Expose: api.ExposeConfig{Paths: []api.ExposePath{
			{Path: "health", ListenerPort: 1, LocalPathPort: 1}}}}),
	} {
		a.Expect(text)
		r.Name, r.Port = "web", 8080
		refused(t, text, c.Agent().ServiceRegister(&r), text)
	}
	if got := a.IDs(); len(got) > 0 {
		t.Errorf("IDs() = %q after refused registrations", got)
	}
}
