package config

import (
	"slices"
	"strings"
	"testing"
)

// TestUnknownKeysOfRPC checks that unknown keys in the rpc block are ignored, as in Nomad, and that known ones are not.
func TestUnknownKeysOfRPC(t *testing.T) {
	files := map[string]string{"a.hcl": minimal + "rpc {\n  max_stream_window_size = 1024\n  more { x = 1 }\n  accept_backlog = 7\n}\n",
		"b.json": `{"rpc": {"max_stream_window_size": 2048, "list": ["a"]}}`}
	s, err := load(t, files)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.RPC.Ignored(); !slices.Equal(got, []string{"list", "max_stream_window_size", "more"}) || s.RPC.AcceptBacklog != 7 {
		t.Errorf("ignored %q, accept_backlog is %d", got, s.RPC.AcceptBacklog)
	}
	files["c.hcl"] = "limits {\n  max_stream_window_size = 1\n}\n"
	if _, err := load(t, files); err == nil || !strings.Contains(err.Error(), `unknown key "max_stream_window_size" in the block limits`) {
		t.Errorf("an unknown key of another block: %v", err)
	}
}
