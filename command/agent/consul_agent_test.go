package agent_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// fetch sends a request and returns the status and the body.
func fetch(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// A client serves the Consul API at its address: keys are variables, nodes are clients. The port and the attribute are those
// of the configuration.
func TestConsulAPI(t *testing.T) {
	ip := testnet.Take(t).IP()
	consul := net.JoinHostPort(ip, "8500")
	srv, _ := run(t, "-server", "-client", "-bootstrap-expect", "1", "-bind", ip, "-data-dir", clienttest.Dir(t), "-config",
		write(t, free+"client {\n consul_api {\n address = \""+consul+"\"\n }\n}\n"))
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
	testpace.Until(t, "the Consul API has a leader", func() bool {
		code, text := fetch(t, "GET", "http://"+consul+"/v1/status/leader", "")
		return code == 200 && strings.Contains(text, ip)
	})
	code, text := fetch(t, "PUT", "http://"+srv.Addr()+"/v1/var/consul/app/name", `{"Path":"consul/app/name","Items":{"value":"shop"}}`)
	if code != 200 {
		t.Fatalf("write the variable: %d %s", code, text)
	}
	if code, text = fetch(t, "GET", "http://"+consul+"/v1/kv/app/name?raw", ""); code != 200 || text != "shop" {
		t.Errorf("key: %d %s", code, text)
	}
	if code, text = fetch(t, "GET", "http://"+consul+"/v1/kv/?keys", ""); code != 200 || strings.TrimSpace(text) != `["app/name"]` {
		t.Errorf("keys: %d %s", code, text)
	}
	if code, text = fetch(t, "PUT", "http://"+consul+"/v1/kv/app/name", "x"); code != 501 {
		t.Errorf("write a key: %d %s", code, text)
	}
	var stubs []struct{ ID string }
	if err := get(srv, "/v1/nodes", &stubs); err != nil {
		t.Fatal(err)
	}
	if code, text = fetch(t, "GET", "http://"+consul+"/v1/catalog/nodes", ""); code != 200 || !strings.Contains(text, stubs[0].ID) {
		t.Errorf("nodes: %d %s", code, text)
	}
	var n nomad.Node
	if err := get(srv, "/v1/node/"+stubs[0].ID, &n); err != nil {
		t.Fatal(err)
	}
	if got := n.Attributes["nomad.consul_api.address"]; got != consul {
		t.Errorf("attribute = %q, want %q", got, consul)
	}
	if got := n.ReservedResources.Networks.ReservedHostPorts; !slices.Contains(strings.Split(got, ","), "8500") {
		t.Errorf("reserved ports = %q, want 8500 among them", got)
	}
}
