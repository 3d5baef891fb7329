package mesh_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

const secret = "0b7d2a1e-5c0a-4b6e-8f43-fd0e2b6c9a11"

func agentOf(t *testing.T, c *testconsul.Agent, token string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Settings{Name: "default", HTTP: api.Config{Address: c.Addr(), Token: token}, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// gateways returns a job with one gateway of each kind.
func gateways() *nomad.Job {
	limit := uint32(7)
	in := connect.Gateway{Ingress: &connect.IngressConfigEntry{TLS: &connect.GatewayTLSConfig{Enabled: true, TLSMinVersion: "TLSv1_2"},
		Listeners: []*connect.IngressListener{{Port: 8080, Protocol: "http", Services: []*connect.IngressService{{Name: "web",
			Hosts: []string{"a"}, MaxConnections: &limit, RequestHeaders: &connect.HTTPHeaderModifiers{Remove: []string{"x"}}}}}}}}
	out := connect.Gateway{Terminating: &connect.TerminatingConfigEntry{Services: []*connect.LinkedService{{Name: "db", CAFile: "/ca", SNI: "db"}}}}
	return jobWith(gateway(in), func(tg *nomad.TaskGroup) {
		tg.Services = append(tg.Services, &nomad.Service{Name: "out", Connect: gateway(out)},
			&nomad.Service{Name: "mesh", PortLabel: "9", Connect: gateway(connect.Gateway{Mesh: &connect.MeshConfigEntry{}})},
			&nomad.Service{Name: "plain", Connect: sidecar()})
	})
}

// TestWriter checks the configuration that Consul gets.
func TestWriter(t *testing.T) {
	sink := metrics.NewInmemSink(time.Hour, time.Hour)
	cfg := metrics.DefaultConfig("")
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(cfg, sink); err != nil {
		t.Fatal(err)
	}
	defer metrics.NewGlobal(cfg, &metrics.BlackholeSink{}) //nolint:errcheck // the test is over
	c := testconsul.Start(t, testconsul.Config{})
	if err := mesh.NewWriter(agentOf(t, c, "")).Write(t.Context(), gateways()); err != nil {
		t.Fatal(err)
	}
	if got := c.Calls("PUT /v1/config"); got != 2 {
		t.Errorf("%d writes, want 2", got)
	}
	if got := sink.Data()[0].Samples["nomad.consul.create_config_entry"]; got.AggregateSample == nil || got.Count != 2 {
		t.Errorf("samples = %+v, want one per write", sink.Data()[0].Samples)
	}
	in := c.ConfigEntry("ingress-gateway", "api")
	listeners, _ := in["Listeners"].([]any)
	if len(listeners) != 1 || in["TLS"].(map[string]any)["TLSMinVersion"] != "TLSv1_2" {
		t.Fatalf("ingress = %v", in)
	}
	service := listeners[0].(map[string]any)["Services"].([]any)[0].(map[string]any)
	if service["Name"] != "web" || service["MaxConnections"] != 7.0 || !reflect.DeepEqual(service["Hosts"], []any{"a"}) {
		t.Errorf("service = %v", service)
	}
	out := c.ConfigEntry("terminating-gateway", "out")
	if s := out["Services"].([]any)[0].(map[string]any); s["Name"] != "db" || s["CAFile"] != "/ca" || s["SNI"] != "db" {
		t.Errorf("terminating = %v", out)
	}
}

// TestWriter_Failures checks that failures end in time, and that their text names the gateway and not the token.
func TestWriter_Failures(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  testconsul.Config
		mode testconsul.Mode
		want string
	}{
		"down": {testconsul.Config{}, testconsul.Mode{Refuse: true}, "connection refused"}, "fails": {testconsul.Config{}, testconsul.Mode{Fail: true}, "unexpected status 500"},
		"hangs": {testconsul.Config{}, testconsul.Mode{Hang: true}, "deadline exceeded"}, "unknown token": {testconsul.Config{ACL: true}, testconsul.Mode{}, "unexpected status 403"},
	} {
		t.Run(name, func(t *testing.T) {
			consul := testconsul.Start(t, c.cfg)
			if err := consul.Set(c.mode); err != nil {
				t.Fatal(err)
			}
			if c.cfg.ACL {
				consul.Expect("ACL not found")
			}
			err := mesh.NewWriter(agentOf(t, consul, secret)).Write(t.Context(), gateways())
			if err == nil || !strings.Contains(err.Error(), `configuration of the ingress-gateway "api" to Consul: `) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("Write() = %v, want %q", err, c.want)
			}
		})
	}
	err := mesh.NewWriter(nil).Write(t.Context(), gateways())
	if err == nil || !strings.Contains(err.Error(), "this server has no consul block") {
		t.Errorf("without an agent: Write() = %v", err)
	}
	if err := mesh.NewWriter(nil).Write(t.Context(), jobWith(sidecar(), nil)); err != nil {
		t.Errorf("without gateways: Write() = %v", err)
	}
}
