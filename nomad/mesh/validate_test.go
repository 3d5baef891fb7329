package mesh_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

// proxied returns a connect block with the proxy of a sidecar.
func proxied(p connect.Proxy) *nomad.ConsulConnect {
	return &nomad.ConsulConnect{SidecarService: &connect.SidecarService{Proxy: &p}}
}

func upstream(name string, port int) connect.Upstream {
	return connect.Upstream{DestinationName: name, LocalBindPort: port}
}

func TestValidate_Faults(t *testing.T) {
	const service = `job "j", group "g", service "api": `
	transparent := func(p connect.TransparentProxy) *nomad.ConsulConnect {
		return proxied(connect.Proxy{TransparentProxy: &p})
	}
	linked := func(s connect.LinkedService) *nomad.ConsulConnect {
		return gateway(connect.Gateway{Terminating: &connect.TerminatingConfigEntry{Services: []*connect.LinkedService{&s}}})
	}
	listener := func(l connect.IngressListener) *nomad.ConsulConnect {
		return gateway(connect.Gateway{Ingress: &connect.IngressConfigEntry{Listeners: []*connect.IngressListener{&l}}})
	}
	db := []*connect.IngressService{{Name: "db"}}
	for name, c := range map[string]struct {
		connect *nomad.ConsulConnect
		edit    func(tg *nomad.TaskGroup)
		want    string
	}{
		"empty": {&nomad.ConsulConnect{}, nil, service + "Consul Connect must be exclusively native, make use of a sidecar, or represent a Gateway"},
		"two":   {&nomad.ConsulConnect{Native: true, SidecarService: &connect.SidecarService{}}, nil, service + "Consul Connect must be exclusively"},
		"in a task": {nil, func(tg *nomad.TaskGroup) {
			tg.Tasks[0].Services = []*nomad.Service{{Name: "x", Connect: sidecar()}}
		}, `service "x" cannot have "connect" block, only services defined in a "group" block can`},
		"no network": {sidecar(), func(tg *nomad.TaskGroup) { tg.Networks = nil }, service + `connect sidecar: the group "g" has 0 networks`},
		"host network": {sidecar(), func(tg *nomad.TaskGroup) { tg.Networks[0].Mode = "" }, service +
			`connect sidecar: invalid network mode for Consul Connect: group "g" uses network mode ""; must be "bridge" or "cni/*"`},
		"network of a gateway": {gateway(ingress(nil)), func(tg *nomad.TaskGroup) { tg.Networks[0].Mode = "none" }, service +
			`connect gateway: invalid network mode for Consul Connect: group "g" uses network mode "none"; must be "host", "bridge" or "cni/*"`},
		"upper case": {sidecar(), func(tg *nomad.TaskGroup) { tg.Name = "G" }, `the name of the group "G" must not contain uppercase characters`},
		"reference":  {sidecar(), func(tg *nomad.TaskGroup) { tg.Services[0].Name = "${meta.x}" }, "and no references"},
		"kind of nothing": {nil, func(tg *nomad.TaskGroup) { tg.Tasks[0].Kind = "connect-proxy:db" },
			`kind of task "t" is "connect-proxy:db", but no service of the group has such a connect block`},
		"kind of another role": {gateway(ingress(nil)), func(tg *nomad.TaskGroup) { tg.Tasks[0].Kind = "connect-proxy:api" }, `kind of task "t" is`},
		"native without port":  {&nomad.ConsulConnect{Native: true}, func(tg *nomad.TaskGroup) { tg.Services[0].PortLabel = "" }, service + "connect native: missing port"},
		"native is ambiguous": {&nomad.ConsulConnect{Native: true}, func(tg *nomad.TaskGroup) {
			tg.Tasks = append(tg.Tasks, &nomad.Task{Name: "u", Driver: "exec2"})
		}, service + "connect native: the group has several tasks"},
		"upstream without name": {proxied(connect.Proxy{Upstreams: []connect.Upstream{upstream("", 1)}}), nil, service + "an upstream has no destination_name"},
		"upstream without port": {proxied(connect.Proxy{Upstreams: []connect.Upstream{upstream("db", 0)}}), nil, service + `the upstream "db" has no local_bind_port`},
		"large port":            {proxied(connect.Proxy{Upstreams: []connect.Upstream{upstream("db", 65536)}}), nil, service + `local_bind_port of the upstream "db" is 65536`},
		"upstreams at one address": {proxied(connect.Proxy{Upstreams: []connect.Upstream{upstream("db", 1), upstream("kv", 1)}}), nil, service +
			`the upstreams "db" and "kv" have the same bind address "127.0.0.1:1"`},
		"mesh gateway": {proxied(connect.Proxy{Upstreams: []connect.Upstream{{DestinationName: "db", LocalBindPort: 1,
			MeshGateway: connect.MeshGateway{Mode: "x"}}}}), nil, service + `mode of mesh_gateway of the upstream "db" is "x"`},
		"two transparent": {transparent(connect.TransparentProxy{}), func(tg *nomad.TaskGroup) {
			tg.Services = append(tg.Services, &nomad.Service{Name: "b", PortLabel: "9", Connect: sidecar()})
		}, "transparent_proxy needs the only connect block of its group, but the group has 2"},
		"transparent with dns": {transparent(connect.TransparentProxy{}), func(tg *nomad.TaskGroup) {
			tg.Networks[0].DNS = &nomad.DNSConfig{Servers: []string{"192.0.2.1"}}
		}, service + "transparent_proxy sets the DNS servers of the group"},
		"inbound port": {transparent(connect.TransparentProxy{ExcludeInboundPorts: []string{"nope"}}), nil, service + `exclude_inbound_ports of transparent_proxy has "nope"`},
		"uid":          {transparent(connect.TransparentProxy{UID: "root"}), nil, service + `the user "root" of transparent_proxy is not a number`},
		"cidr":         {transparent(connect.TransparentProxy{ExcludeOutboundCIDRs: []string{"x"}}), nil, service + `exclude_outbound_cidrs of transparent_proxy has "x"`},
		"exposed without port": {sidecar(), func(tg *nomad.TaskGroup) {
			tg.Services[0].PortLabel, tg.Networks[0].DynamicPorts = "http", []nomad.Port{{Label: "http"}}
			tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "http", Path: "/", Expose: true}}
		}, service + `check "c" is exposed, but the port of the service in its network namespace is not known`},
		"exposed path": {sidecar(), func(tg *nomad.TaskGroup) {
			tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "http", Path: "health", Expose: true}}
		}, service + `check "c" is exposed, and its path is "health": it must begin with /`},
		"exposed https": {sidecar(), func(tg *nomad.TaskGroup) {
			tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "http", Path: "/", Protocol: "https", Expose: true}}
		}, service + `check "c" is exposed, and its protocol is "https"`},
		"no gateway":     {gateway(connect.Gateway{}), nil, service + "a gateway must have exactly one of the blocks ingress, terminating and mesh, not 0"},
		"no listener":    {gateway(connect.Gateway{Ingress: &connect.IngressConfigEntry{}}), nil, service + "Consul Ingress Gateway requires at least one listener"},
		"listener port":  {listener(connect.IngressListener{Protocol: "tcp", Services: db}), nil, service + "port of a listener is 0"},
		"protocol":       {listener(connect.IngressListener{Port: 1, Protocol: "udp", Services: db}), nil, service + `protocol of a listener is "udp"`},
		"no service":     {listener(connect.IngressListener{Port: 1, Protocol: "tcp"}), nil, service + "the listener on port 1 has no service"},
		"no linked":      {gateway(connect.Gateway{Terminating: &connect.TerminatingConfigEntry{}}), nil, service + "Consul Terminating Gateway requires at least one service"},
		"cert alone":     {linked(connect.LinkedService{Name: "db", CAFile: "/ca", CertFile: "/c"}), nil, service + `the service "db" of the terminating gateway needs cert_file and key_file`},
		"no CA":          {linked(connect.LinkedService{Name: "db", SNI: "x"}), nil, service + `the service "db" of the terminating gateway has TLS options without ca_file`},
		"no mesh port":   {gateway(connect.Gateway{Mesh: &connect.MeshConfigEntry{}}), func(tg *nomad.TaskGroup) { tg.Services[0].PortLabel = "" }, service + "a mesh gateway needs port"},
		"discovery type": {gateway(connect.Gateway{Proxy: &connect.GatewayProxy{EnvoyDNSDiscoveryType: "x"}, Mesh: &connect.MeshConfigEntry{}}), nil, service + `envoy_dns_discovery_type is "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobWith(codec.Copy(c.connect), c.edit)
			got := mesh.Validate(job)
			if len(got) != 1 || !strings.Contains(got[0].Error(), c.want) {
				t.Errorf("Validate() = %q, want only %q", got, c.want)
			}
			mesh.Inject(job) // an invalid job must not be a problem
			if got := mesh.Validate(job); len(got) != 1 {
				t.Errorf("Validate() after Inject() = %q, want one error", got)
			}
		})
	}
}

// TestValidate_Bounds checks that the number and the size of errors are limited.
func TestValidate_Bounds(t *testing.T) {
	job := jobWith(nil, func(tg *nomad.TaskGroup) {
		for range 500 {
			tg.Services = append(tg.Services, &nomad.Service{Name: strings.Repeat("%s", 10_000), Connect: &nomad.ConsulConnect{}})
		}
	})
	start := time.Now()
	got := mesh.Validate(job)
	if len(got) != 100 || len(got[0].Error()) > 1000 || strings.Contains(got[0].Error(), "MISSING") {
		t.Errorf("%d errors in %v, the first is %.300q", len(got), time.Since(start), got[0])
	}
}
