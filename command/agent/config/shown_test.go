package config

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Durations are strings where tools expect strings, and nanoseconds elsewhere.
func TestShownDurations(t *testing.T) {
	s, err := load(t, map[string]string{"a.hcl": "data_dir = \"/srv\"\nserver {\n enabled = true\n raft_boltdb { no_freelist_sync = true }\n}"})
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
