package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// The official SDK rotates the key of gossip.
func TestSDKRotatesGossipKeys(t *testing.T) {
	const old, next = "MDEyMzQ1Njc4OWFiY2RlZg==", "ZmVkY2JhOTg3NjU0MzIxMA=="
	dir := tempDir(t)
	a := startIn(t, cluster.Options{Dir: dir, Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-encrypt=" + old}})
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct {
		name string
		do   func(string) (*sdk.KeyringResponse, error)
		key  string
		want string // of the error
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
