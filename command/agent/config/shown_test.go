package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Durations are strings where tools expect strings, and nanoseconds elsewhere.
func TestShownDurations(t *testing.T) {
	s, err := load(t, map[string]string{"a.hcl": "data_dir = \"/srv\"\nserver {\n enabled = true\n" +
		" raft_boltdb { no_freelist_sync = true }\n}"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shownBlock(reflect.ValueOf(s.Config)))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Limits struct{ HTTPSHandshakeTimeout string }
		Client struct {
			MaxKillTimeout string
			GCInterval     int64
		}
		Server struct {
			NodeGCThreshold string
			HeartbeatGrace  int64
			RaftLogstore    struct{ Backend string }
		}
		Telemetry struct{ CollectionInterval string }
		ACL       struct{ TokenTTL int64 }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v of %s", err, text)
	}
	want := got
	want.Limits.HTTPSHandshakeTimeout, want.Client.MaxKillTimeout, want.Client.GCInterval = "5s", "30s", 60e9
	want.Server.NodeGCThreshold, want.Server.HeartbeatGrace, want.Server.RaftLogstore.Backend = "24h0m0s", 10e9, "boltdb"
	want.Telemetry.CollectionInterval, want.ACL.TokenTTL = "1s", 30e9
	if got != want {
		t.Errorf("shown %+v, want %+v", got, want)
	}
}

// An agent shows every key of Nomad's configuration under the name of its field, which is the key without underscores in
// another case. Blocks that can be repeated are lists.
func TestShown_EveryKey(t *testing.T) {
	shown := 0
	for _, r := range readAlone(t) {
		s := Default()
		s.otherMachine = true
		name := filepath.Join(t.TempDir(), "a.json")
		if err := os.WriteFile(name, []byte(r.json()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.load(name); err != nil {
			t.Errorf("%s: %v", r.path(), err)
			continue
		}
		var at any = answer(t, s.Redacted())
		for _, words := range r.steps() {
			for _, word := range words {
				at = inShown(at, word)
			}
		}
		if at == nil {
			t.Errorf("%s is not shown", r.path())
			continue
		}
		shown++
	}
	if shown < 500 {
		t.Errorf("only %d keys were found", shown)
	}
}

// inShown returns the value of a key, which may be in the only block of a list, or the block of a list for its label. It
// returns nil if the key is not shown.
func inShown(at any, word string) any {
	switch at := at.(type) {
	case []any:
		for _, block := range at {
			if block, ok := block.(map[string]any); ok && (block["Name"] == word || block["Provider"] == word) {
				return block
			}
		}
		if len(at) == 1 {
			return inShown(at[0], word)
		}
	case map[string]any:
		for name, v := range at {
			if name, key := plainName(name), plainName(word); v != nil && (name == key || name == key+"s" ||
				strings.HasPrefix(name, key+".")) {
				return v
			}
		}
	}
	return nil
}
