package client_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// The node registers while its Consul hangs, and again with the facts when it answers. They stay when Consul is gone, and
// those of an upgraded Consul replace them.
func TestConsul_Hangs(t *testing.T) {
	var upgraded atomic.Bool
	a := testconsul.Start(t, testconsul.Config{Self: func(self testconsul.Self) {
		if upgraded.Load() {
			self["Config"]["Version"] = "1.23.0"
			delete(self["Config"], "Revision")
		}
	}})
	mode := func(m testconsul.Mode) {
		t.Helper()
		if err := a.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	mode(testconsul.Mode{Hang: true})
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	c, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: a.Addr()}, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Consul.Agents = []*consul.Agent{c}
	node := clienttest.Start(t, cfg)
	registered := func() (version, link string, ok bool) {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		if f.Node == nil {
			return "", "", false
		}
		return f.Node.Attributes["consul.version"], f.Node.Links["consul"], true
	}
	testpace.Until(t, "the node registers while Consul hangs", func() bool { _, _, ok := registered(); return ok })
	if version, _, _ := registered(); version != "" {
		t.Errorf("version %q while Consul hangs", version)
	}
	testpace.Until(t, "the request", func() bool { return a.Calls("GET /v1/agent/self") == 1 })
	mode(testconsul.Mode{})
	testpace.Until(t, "the node registers with the facts", func() bool {
		version, link, _ := registered()
		return version == "1.22.1" && link == "dc1.node1"
	})
	mode(testconsul.Mode{Refuse: true})
	if version, _, _ := registered(); version != "1.22.1" {
		t.Errorf("version %q without Consul", version)
	}
	mode(testconsul.Mode{})
	upgraded.Store(true)
	testpace.Until(t, "the node registers with the new facts", func() bool {
		node.Reload()
		f.Mu.Lock()
		defer f.Mu.Unlock()
		_, old := f.Node.Attributes["consul.revision"]
		return f.Node.Attributes["consul.version"] == "1.23.0" && !old
	})
}
