package agent_test

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// A client finds its server with retry_join only.
func TestClientJoinsByRetryJoin(t *testing.T) {
	srv, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free))
	var self struct {
		Member struct {
			Tags map[string]string
		}
	}
	testpace.Until(t, "the server knows itself",
		func() bool { return get(srv, "/v1/agent/self", &self) == nil && self.Member.Tags["port"] != "" })
	addr := net.JoinHostPort(self.Member.Tags["rpc_addr"], self.Member.Tags["port"])
	run(t, "-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config",
		write(t, free+"client { server_join { retry_join = [\""+addr+"\"] retry_max = 100 retry_interval = \"1s\" } }\n"))
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
}

// A client without servers starts, serves its API, and registers with servers that are set later.
func TestClientWaitsForServers(t *testing.T) {
	srv, _ := run(t, serverOnly(t, write(t, free))...)
	var self struct {
		Member struct {
			Tags map[string]string
		}
	}
	testpace.Until(t, "the server has its address",
		func() bool { return get(srv, "/v1/agent/self", &self) == nil && self.Member.Tags["port"] != "" })
	node, _ := run(t, "-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free))
	var servers []string
	testpace.Until(t, "the client serves its API", func() bool { return get(node, "/v1/agent/servers", &servers) == nil })
	if servers == nil || len(servers) != 0 || readyNodes(srv) != 0 {
		t.Errorf("servers %#v, %d ready nodes, want an empty list and none", servers, readyNodes(srv))
	}
	c, err := api.NewClient(&api.Config{Address: "http://" + node.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort(self.Member.Tags["rpc_addr"], self.Member.Tags["port"])
	if err := c.Agent().SetServers([]string{addr}); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
}

// A client with a limited number of attempts exits if it cannot register with a server.
func TestClientGivesUp(t *testing.T) {
	ln := testnet.Listen(t)
	unused := ln.Addr().String()
	ln.Close()
	text := free + "client { server_join { retry_join = [\"" + unused + "\"] retry_max = 2 retry_interval = \"50ms\" } }\n"
	a, err := build(t, &bytes.Buffer{}, "-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "within 100ms") {
			t.Errorf("Run() = %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the client goes on")
	}
}

// The API listens on every address of the list. An address that others can use is advertised.
func TestSeveralAddresses(t *testing.T) {
	one, two := testnet.Take(t), testnet.Take(t)
	run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config",
		write(t, "ports { http = 4646 rpc = 0 serf = 0 }\naddresses { http = \""+one.IP()+" "+two.IP()+"\" }\n"))
	for _, at := range []*testnet.Block{one, two} {
		resp, err := http.Get("http://" + at.Addr(4646) + "/v1/status/leader")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}
