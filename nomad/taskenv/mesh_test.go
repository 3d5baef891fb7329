package taskenv_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// TestMesh checks the variables of upstreams and proxies, on a bridge and on the host's network.
func TestMesh(t *testing.T) {
	upstreams := map[string]string{
		"NOMAD_UPSTREAM_ADDR_my-db": "127.0.0.1:3306", "NOMAD_UPSTREAM_IP_my-db": "127.0.0.1", "NOMAD_UPSTREAM_PORT_my-db": "3306",
		"NOMAD_UPSTREAM_ADDR_my_db": "127.0.0.1:3306", "NOMAD_UPSTREAM_IP_my_db": "127.0.0.1", "NOMAD_UPSTREAM_PORT_my_db": "3306",
	}
	for mode, want := range map[string]map[string]string{
		"bridge": {"NOMAD_ENVOY_ADMIN_ADDR_web_1": "127.0.0.2:19001", "NOMAD_ENVOY_READY_ADDR_web_1": "127.0.0.1:19101"},
		"host":   {"NOMAD_ENVOY_ADMIN_ADDR_web_1": "127.0.0.2:20001", "NOMAD_ENVOY_READY_ADDR_web_1": "127.0.0.1:20001"},
	} {
		s := subject()
		group := s.Alloc.Job.TaskGroups[0]
		group.Networks = nomad.Networks{{Mode: mode}}
		group.Tasks = append(group.Tasks, &nomad.Task{Name: "proxy", Kind: "connect-proxy:web-1"})
		group.Services = []*nomad.Service{{Name: "plain"}, {Name: "web-1", PortLabel: "http-in", Connect: &nomad.ConsulConnect{
			SidecarService: &connect.SidecarService{Proxy: &connect.Proxy{Upstreams: []connect.Upstream{
				{DestinationName: "my-db", LocalBindPort: 3306, LocalBindAddress: "127.0.0.5"}}}}}},
			{Name: "native", Connect: &nomad.ConsulConnect{Native: true}}}
		s.Task.Kind = "connect-native:native"
		got := map[string]string{}
		for name, value := range taskenv.New(s).Build().Map() {
			if strings.HasPrefix(name, "NOMAD_UPSTREAM_") || strings.HasPrefix(name, "NOMAD_ENVOY_") {
				got[name] = value
			}
		}
		maps.Copy(want, upstreams)
		if !maps.Equal(got, want) {
			t.Errorf("mode %s: variables = %v, want %v", mode, got, want)
		}
	}
}

// TestEnvoyVersion checks that the version is replaced in the meta of the node, and nothing else is.
func TestEnvoyVersion(t *testing.T) {
	s := subject()
	s.Node.Meta = map[string]string{"image": "envoy:v${NOMAD_envoy_version}", "other": "${NOMAD_DC}"}
	b := taskenv.New(s)
	const image, other = "${meta.image} ${NOMAD_envoy_version}", "${meta.other}"
	if got := b.Build().Expand(image); got != "envoy:v${NOMAD_envoy_version} ${NOMAD_envoy_version}" {
		t.Errorf("without the version: %q", got)
	}
	b.SetHook("envoy_version", map[string]string{taskenv.EnvoyVersion: "1.35.3"})
	if got := b.Build().Expand(image); got != "envoy:v1.35.3 1.35.3" {
		t.Errorf("with the version: %q", got)
	}
	if got := b.Build().Expand(other); got != "${NOMAD_DC}" {
		t.Errorf("another reference in meta became %q", got)
	}
}
