package state_test

import (
	"log/slog"
	"maps"
	"testing"

	"github.com/open-nomad/open-nomad/client/state"
)

// TestHostVolumePaths checks that the paths of the last start are in the file, and that the file can be opened again.
func TestHostVolumePaths(t *testing.T) {
	dir := t.TempDir()
	want := map[string]state.HostVolumePath{"data": {Configured: "/data", Real: "/mnt/data"}}
	for i := range 2 {
		db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.HostVolumePaths()
		if err != nil || i == 0 && got != nil || i == 1 && !maps.Equal(got, want) {
			t.Errorf("HostVolumePaths() of start %d = %v, %v", i, got, err)
		}
		if err := db.PutHostVolumePaths(want); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
