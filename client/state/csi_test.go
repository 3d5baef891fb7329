package state_test

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
)

// TestCSIInstances checks that instances survive a restart, and that a deleted one does not.
func TestCSIInstances(t *testing.T) {
	dir := t.TempDir()
	open := func() *state.DB {
		t.Helper()
		db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	one := &state.CSIInstance{Kind: "csi-node", PluginID: "nfs", AllocID: "a", Provider: "org.example.nfs", Version: "1.0",
		SocketDir: "/state/csi/plugins/a", SocketName: "csi.sock", Root: "/state/csi/node/nfs", TaskRoot: "/local/csi", Privileged: true,
		Updated: time.Unix(1700000000, 0).UTC()}
	other := *one
	other.AllocID = "b"
	db := open()
	for _, i := range []*state.CSIInstance{one, &other} {
		if err := db.PutCSIInstance(i); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time, it does not exist
		if err := db.DeleteCSIInstance("csi-node", "nfs", "b"); err != nil {
			t.Errorf("DeleteCSIInstance() = %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	defer db.Close()
	got, err := db.CSIInstances()
	if len(got) == 1 {
		got[0].Updated = got[0].Updated.UTC()
	}
	if err != nil || !reflect.DeepEqual(got, []*state.CSIInstance{one}) {
		t.Errorf("CSIInstances() = %+v, %v, want %+v", got, err, one)
	}
}
