package connect_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/nomad"
	mesh "github.com/open-nomad/open-nomad/nomad/connect"
)

const (
	allocID = "5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f"
	webID   = "_nomad-task-" + allocID + "-group-g-web-9090"
)

// workload returns the services of a group with ports for a sidecar, a gateway and a check.
func workload(s *nomad.Service) *service.Workload {
	group := &nomad.TaskGroup{Name: "g", Services: []*nomad.Service{s}}
	a := &nomad.Allocation{ID: allocID, Namespace: "prod", JobID: "shop", TaskGroup: "g", Name: "shop.g[0]",
		Job: &nomad.Job{ID: "shop", Name: "shop", Meta: map[string]string{"db": "mysql"}, TaskGroups: []*nomad.TaskGroup{group}},
		AllocatedResources: &nomad.AllocatedResources{Shared: nomad.AllocatedSharedResources{Networks: nomad.Networks{{IP: "192.0.2.1"}},
			Ports: nomad.AllocatedPorts{{Label: "connect-proxy-web", Value: 23000, To: 23000, HostIP: "192.0.2.1"},
				{Label: "own", Value: 24000, To: 8500}, {Label: "six", Value: 25000, HostIP: "2001:db8::1"},
				{Label: "connect-mesh-web-lan", Value: 26000, To: 26000, HostIP: "192.0.2.1"}}}}}
	w := service.OfGroup(a, &nomad.Node{ID: "n1"}, "global", nil)
	return &w
}

// tags are the stats tags of every sidecar.
const tags = `"envoy_stats_tags":["nomad.alloc_id=` + allocID + `","nomad.group=g","nomad.job=shop","nomad.namespace=prod"]`

// checks are the checks of a sidecar that listens at an address.
func checks(at string) string {
	return `"Checks":[{"Name":"Connect Sidecar Aliasing ` + webID + `","AliasService":"` + webID +
		`"},{"Name":"Connect Sidecar Listening","TCP":"` + at + `","Interval":"10s"}]`
}

// TestAdd checks the JSON that Consul receives for each kind of connect block, and that Consul accepts it.
func TestAdd(t *testing.T) {
	second := 5 * time.Second
	for name, tc := range map[string]struct {
		connect *nomad.ConsulConnect
		want    string // the parts Kind, Connect, Proxy and TaggedAddresses
	}{
		"none":   {nil, `{}`},
		"native": {&nomad.ConsulConnect{Native: true}, `{"Connect":{"Native":true}}`},
		"sidecar": {&nomad.ConsulConnect{SidecarService: &mesh.SidecarService{}},
			`{"Connect":{"SidecarService":{"Port":23000,"Address":"192.0.2.1","Check":null,` + checks("192.0.2.1:23000") +
				`,"Proxy":{"Config":{"bind_address":"0.0.0.0","bind_port":23000,` + tags + `},"MeshGateway":{},"Expose":{}}}}}`},
		"sidecar with all": {&nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Tags: []string{"${NOMAD_META_db}"}, Port: "own",
			DisableDefaultTCPCheck: true, Meta: map[string]string{"k": "${NOMAD_META_db}"}, Proxy: &mesh.Proxy{
				LocalServiceAddress: "127.0.0.3", LocalServicePort: 9090, Config: map[string]any{
					"envoy_stats_tags": []any{"a=${NOMAD_META_db}"}, "bind_port": 1, "deep": map[string]any{"protocol": "http"}},
				Upstreams: []mesh.Upstream{{DestinationName: "${NOMAD_META_db}", DestinationType: "service", LocalBindPort: 3306,
					LocalBindAddress: "127.0.0.1", Datacenter: "dc2", DestinationPeer: "cloud", MeshGateway: mesh.MeshGateway{Mode: "local"},
					Config: map[string]any{"connect_timeout_ms": 10}}, {DestinationName: "log", LocalBindSocketPath: "/alloc/log.sock",
					LocalBindSocketMode: "0600"}},
				Expose: &mesh.ExposeConfig{Paths: []mesh.ExposePath{{Path: "/health", Protocol: "http", LocalPathPort: 9090, ListenerPort: "own"}}},
			}}}, `{"Connect":{"SidecarService":{"Tags":["mysql"],"Port":24000,"Address":"192.0.2.1","Meta":{"k":"mysql"},"Check":null,` +
			`"Checks":[{"Name":"Connect Sidecar Aliasing ` + webID + `","AliasService":"` + webID + `"}],"Proxy":{` +
			`"LocalServiceAddress":"127.0.0.3","LocalServicePort":9090,"Config":{"bind_address":"0.0.0.0","bind_port":8500,` +
			`"deep":{"protocol":"http"},"envoy_stats_tags":["a=mysql"]},"Upstreams":[{"DestinationType":"service","DestinationPeer":"cloud",` +
			`"DestinationName":"mysql","Datacenter":"dc2","LocalBindAddress":"127.0.0.1","LocalBindPort":3306,` +
			`"Config":{"connect_timeout_ms":10},"MeshGateway":{"Mode":"local"}},{"DestinationName":"log",` +
			`"LocalBindSocketPath":"/alloc/log.sock","LocalBindSocketMode":"0600","MeshGateway":{}}],"MeshGateway":{},` +
			`"Expose":{"Paths":[{"ListenerPort":8500,"Path":"/health","LocalPathPort":9090,"Protocol":"http","ParsedFromCheck":false}]}}}}}`},
		"transparent proxy over IPv6": {&nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Port: "six",
			Proxy: &mesh.Proxy{TransparentProxy: &mesh.TransparentProxy{}}}},
			`{"Connect":{"SidecarService":{"Port":25000,"Address":"2001:db8::1","Check":null,` + checks("[2001:db8::1]:25000") +
				`,"Proxy":{"Mode":"transparent","TransparentProxy":{"OutboundListenerPort":15001},"Config":{"bind_address":"::",` +
				`"bind_port":25000,` + tags + `},"MeshGateway":{},"Expose":{}}}}}`},
		"ingress gateway": {&nomad.ConsulConnect{Gateway: &mesh.Gateway{Ingress: &mesh.IngressConfigEntry{}, Proxy: &mesh.GatewayProxy{
			ConnectTimeout: &second, EnvoyGatewayNoDefaultBind: true, EnvoyDNSDiscoveryType: "STRICT_DNS",
			EnvoyGatewayBindAddresses: map[string]*mesh.GatewayBindAddress{"db": {Address: "0.0.0.0", Port: 8080}},
			Config:                    map[string]any{"own": "${NOMAD_META_db}"}}}},
			`{"Kind":"ingress-gateway","Proxy":{"Config":{"connect_timeout_ms":5000,"envoy_dns_discovery_type":"STRICT_DNS",` +
				`"envoy_gateway_bind_addresses":{"db":{"address":"0.0.0.0","port":8080}},"envoy_gateway_no_default_bind":true,"own":"mysql"},` +
				`"MeshGateway":{},"Expose":{}}}`},
		"terminating gateway": {&nomad.ConsulConnect{Gateway: &mesh.Gateway{Terminating: &mesh.TerminatingConfigEntry{},
			Proxy: &mesh.GatewayProxy{EnvoyGatewayBindTaggedAddresses: true}}},
			`{"Kind":"terminating-gateway","Proxy":{"Config":{"envoy_gateway_bind_tagged_addresses":true},"MeshGateway":{},"Expose":{}}}`},
		"mesh gateway": {&nomad.ConsulConnect{Gateway: &mesh.Gateway{Mesh: &mesh.MeshConfigEntry{}}},
			`{"Kind":"mesh-gateway","TaggedAddresses":{"lan":{"Address":"192.0.2.1","Port":26000},"wan":{"Address":"192.0.2.9","Port":9090}},` +
				`"Proxy":{"MeshGateway":{},"Expose":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &nomad.Service{Name: "web", PortLabel: "9090", Connect: tc.connect}
			r := &api.AgentServiceRegistration{ID: webID, Name: "web", Address: "192.0.2.9", Port: 9090}
			if err := connect.Add(workload(s), s, r); err != nil {
				t.Fatal(err)
			}
			sameJSON(t, r, tc.want)
			accepted(t, s, r)
		})
	}
}

// sameJSON compares the parts of a registration that belong to the mesh.
func sameJSON(t *testing.T, r *api.AgentServiceRegistration, want string) {
	t.Helper()
	text, err := json.Marshal(struct {
		Kind            api.ServiceKind                     `json:",omitempty"`
		TaggedAddresses map[string]api.ServiceAddress       `json:",omitempty"`
		Connect         *api.AgentServiceConnect            `json:",omitempty"`
		Proxy           *api.AgentServiceConnectProxyConfig `json:",omitempty"`
	}{r.Kind, r.TaggedAddresses, r.Connect, r.Proxy})
	if err != nil {
		t.Fatal(err)
	}
	var have, expected any
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !reflect.DeepEqual(have, expected) {
		t.Errorf("registration =\n%s\nwant\n%s", text, want)
	}
}

// accepted registers and deregisters a service in Consul. Its sidecar must appear with its checks and leave with it.
func accepted(t *testing.T, s *nomad.Service, r *api.AgentServiceRegistration) {
	t.Helper()
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c, err := api.NewClient(&api.Config{Address: a.Addr()})
	if err == nil {
		err = c.Agent().ServiceRegister(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	sidecar := r.Connect != nil && r.Connect.SidecarService != nil
	proxy, ok := a.Services()[r.ID+"-sidecar-proxy"]
	if ok != sidecar || ok && (proxy.Kind != api.ServiceKindConnectProxy || proxy.Proxy.DestinationServiceID != r.ID) {
		t.Errorf("the sidecar in Consul is %+v, want one: %t", proxy, sidecar)
	}
	want := map[string]string{}
	for _, one := range connect.SidecarChecks(s, r.ID) {
		want[one.ID] = one.Name
	}
	got := map[string]string{}
	for id, one := range a.Checks() {
		got[id] = one.Name
	}
	if !maps.Equal(got, want) {
		t.Errorf("the checks in Consul are %q, want %q", got, want)
	}
	if err := c.Agent().ServiceDeregister(r.ID); err != nil {
		t.Fatal(err)
	}
	if left := a.IDs(); len(left) > 0 {
		t.Errorf("after the removal, Consul has %q", left)
	}
}

// TestAdd_Faults checks that an error names the service and what is wrong.
func TestAdd_Faults(t *testing.T) {
	for name, tc := range map[string]struct {
		connect nomad.ConsulConnect
		want    string
	}{
		"port of the sidecar": {nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Port: "nope"}}, `the group has no port "nope"`},
		"port number":         {nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Port: "70000"}}, `the group has no port "70000"`},
		"port of a path": {nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Proxy: &mesh.Proxy{Expose: &mesh.ExposeConfig{
			Paths: []mesh.ExposePath{{Path: "/x", ListenerPort: "nope"}}}}}}, `expose path "/x": the group has no port "nope"`},
		"gateway without a kind": {nomad.ConsulConnect{Gateway: &mesh.Gateway{}}, "ingress, terminating or mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &nomad.Service{Name: "web", PortLabel: "9090", Connect: &tc.connect}
			err := connect.Add(workload(s), s, &api.AgentServiceRegistration{ID: webID, Name: "web"})
			if err == nil || !strings.Contains(err.Error(), `service "web"`) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Add() = %v, want an error with %s and the service", err, tc.want)
			}
		})
	}
}
