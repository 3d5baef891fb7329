package nodes_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The official SDK rotates the key of gossip.
func TestSDKRotatesGossipKeys(t *testing.T) {
	const old, next = "MDEyMzQ1Njc4OWFiY2RlZg==", "ZmVkY2JhOTg3NjU0MzIxMA=="
	dir := harness.TempDir(t)
	a := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-encrypt=" + old}})
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct {
		name string
		do   func(string) (*sdk.KeyringResponse, error)
		key  string
		want string // substring of the error
	}{
		{"remove the primary", c.Agent().RemoveKey, old, "use another key first"},
		{"install", c.Agent().InstallKey, next, ""},
		{"use", c.Agent().UseKey, next, ""},
		{"remove", c.Agent().RemoveKey, old, ""},
	} {
		resp, err := step.do(step.key)
		switch {
		case step.want == "" && (err != nil || resp.NumNodes != 1):
			t.Errorf("%s: %+v, %v", step.name, resp, err)
		case step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)):
			t.Errorf("%s: %v, want an error with %q", step.name, err, step.want)
		}
	}
	if keys, err := c.Agent().ListKeys(); err != nil || len(keys.Keys) != 1 || keys.Keys[next] != 1 || keys.NumNodes != 1 {
		t.Errorf("ListKeys() = %+v, %v", keys, err)
	}
}

// The official SDK removes a killed server before the others notice its failure.
func TestSDKPrunesServers(t *testing.T) {
	dir := harness.TempDir(t)
	server := func(name string, args ...string) *cluster.Agent {
		return harness.StartIn(t, cluster.Options{Dir: dir,
			Args: append([]string{"-server", "-node=" + name, "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, name, "data")}, args...)})
	}
	a := server("a", "-bootstrap-expect=1")
	b := server("b", fmt.Sprintf("-join=127.0.0.1:%d", a.Serf))
	c := harness.SDKClient(t, a, "")
	status := func() map[string]string {
		members, err := c.Agent().Members()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, m := range members.Members {
			out[m.Name] = m.Status
		}
		return out
	}
	harness.Within(t, harness.Patience, "both servers", func() bool { return status()["b.global"] == "alive" })
	b.Kill()
	if err := c.Agent().ForceLeaveWithOptions("b.global", sdk.ForceLeaveOpts{Prune: true}); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "one server", func() bool { return maps.Equal(status(), map[string]string{"a.global": "alive"}) })
}
