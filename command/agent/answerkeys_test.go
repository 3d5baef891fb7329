package agent_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// The answers about an agent have the keys that tools for Nomad read. The keys of config are tested in config.
func TestAgentAnswers_Keys(t *testing.T) {
	a, stop := run(t, "-dev", "-config", write(t, free))
	defer stop()
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(a) == 1 })
	const host = "OS Network ResolvConf Hosts Environment Disk"
	for _, c := range []struct{ path, at, keys string }{
		{"/v1/agent/self", "", "config member stats"},
		{"/v1/agent/self", "member",
			"Name Addr Port Tags Status ProtocolMin ProtocolMax ProtocolCur DelegateMin DelegateMax DelegateCur"},
		{"/v1/agent/self", "stats", "client nomad raft runtime"},
		{"/v1/agent/host", "", "AgentID HostData " + host},
		{"/v1/agent/host?node_id=" + a.NodeID(), "", "AgentID HostData " + host},
		{"/v1/agent/host", "HostData", host},
	} {
		var got map[string]any
		if err := get(a, c.path, &got); err != nil {
			t.Fatal(err)
		}
		if c.at != "" {
			got, _ = got[c.at].(map[string]any)
		}
		for key := range strings.FieldsSeq(c.keys) {
			if v, ok := got[key]; !ok || v == nil {
				t.Errorf("%s %s has no %s: %q", c.path, c.at, key, slices.Sorted(maps.Keys(got)))
			}
		}
	}
}
