package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// sdkOf returns a client of Nomad's SDK for an agent.
func sdkOf(t *testing.T, a *cluster.Agent) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Any agent returns the profiles and the host data of any server and any node. Each agent on the way
// needs enable_debug, since access control is disabled.
func TestProfilesAcrossAgents(t *testing.T) {
	debug := filepath.Join(harness.TempDir(t), "debug.hcl")
	if err := os.WriteFile(debug, []byte("enable_debug = true"), 0o644); err != nil {
		t.Fatal(err)
	}
	home := harness.TempDir(t)
	server := harness.StartIn(t, cluster.Options{Dir: home,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(home, "data"), "-node=s",
			"-config=" + debug}})
	servers := fmt.Sprintf("-servers=127.0.0.1:%d", server.RPC)
	node := func(args ...string) (*cluster.Agent, string) {
		dir := harness.TempDir(t)
		a := harness.StartIn(t, cluster.Options{Dir: dir,
			Args: append([]string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), servers}, args...)})
		id, err := a.NodeID()
		if err != nil {
			t.Fatal(err)
		}
		return a, id
	}
	open, openID := node("-config=" + debug)
	_, closedID := node()
	for _, ask := range []*cluster.Agent{server, open} {
		for _, o := range []sdk.PprofOptions{{}, {NodeID: openID}, {ServerID: "leader"}, {ServerID: "s.global"}} {
			stacks, err := sdkOf(t, ask).Agent().Lookup("goroutine", sdk.PprofOptions{Debug: 2, NodeID: o.NodeID, ServerID: o.ServerID}, nil)
			if err != nil || !strings.Contains(string(stacks), "goroutine ") {
				t.Errorf("goroutines of %+v: %d bytes, %v", o, len(stacks), err)
			}
			h, err := sdkOf(t, ask).Agent().Host(o.ServerID, o.NodeID, nil)
			switch {
			case err != nil:
				t.Errorf("host of %+v: %v", o, err)
			case h.AgentID == "" || h.HostData.OS == "" || len(h.HostData.Environment) != 0:
				t.Errorf("host of %+v: %+v", o, h)
			case o.NodeID != "" && h.AgentID != openID, o.ServerID != "" && h.AgentID != "s.global":
				t.Errorf("host of %+v is of %q", o, h.AgentID)
			}
		}
	}
	profile, err := sdkOf(t, server).Agent().CPUProfile(sdk.PprofOptions{Seconds: 1, NodeID: openID}, nil)
	if err != nil || !strings.HasPrefix(string(profile), "\x1f\x8b") {
		t.Errorf("CPU profile: %d bytes, %v", len(profile), err)
	}
	if _, err := sdkOf(t, server).Agent().Host("", closedID, nil); err == nil || !strings.Contains(err.Error(), "enable_debug") {
		t.Errorf("host data of a node without enable_debug: %v", err)
	}
	for want, o := range map[string]sdk.PprofOptions{
		"Cannot target node and server": {NodeID: openID, ServerID: "leader"}, "unknown Nomad server": {ServerID: "nobody"},
		"Unknown node": {NodeID: "11111111-1111-1111-1111-111111111111"},
		"enable_debug": {NodeID: closedID},
	} {
		if _, err := sdkOf(t, server).Agent().Lookup("heap", o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("profile of %+v: %v, want %q", o, err, want)
		}
	}
	if _, err := sdkOf(t, server).Agent().Lookup("nothing", sdk.PprofOptions{}, nil); err == nil ||
		!strings.Contains(err.Error(), "Unknown profile") {
		t.Errorf("an unknown profile: %v", err)
	}
}
