package agent_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// body returns an answer of the API as text.
func body(t *testing.T, addr, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestConsul checks that a node with a consul block has the attributes of its Consul, that jobs with services of Consul
// are refused in the mode consul, and that neither the log nor the API has the token.
func TestConsul(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	token := c.NewToken(t, `agent_prefix "" { policy = "read" }`)
	out := &testbuffer.Buffer{}
	a, err := build(t, out, "-dev", "-config", write(t, free+"server {\n services {\n consul = \"consul\"\n}\n}\n"+
		"log_level = \"TRACE\"\nconsul {\n address = \""+c.Addr()+"\"\n token = \""+token+"\"\n auto_advertise = false\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if text := out.String(); strings.Contains(text, token) || !strings.Contains(text, "node is ready") {
			t.Errorf("log:\n%s", text)
		}
	})
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(a) == 1 })
	testpace.Until(t, "the node has the facts", func() bool {
		return strings.Contains(body(t, a.Addr(), "/v1/node/"+a.NodeID()), `"consul.version":"1.22.1"`)
	})
	for _, path := range []string{"/v1/agent/self", "/v1/node/" + a.NodeID(), "/v1/nodes?meta=true", "/v1/metrics"} {
		if text := body(t, a.Addr(), path); strings.Contains(text, token) || len(text) == 0 {
			t.Errorf("%s has the token, or nothing", path)
		}
	}
	if got := c.IDs(); len(got) > 0 {
		t.Errorf("registered in Consul: %q", got)
	}
}
