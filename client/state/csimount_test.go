package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/state"
)

// TestCSIMounts checks that the uses of volumes survive the agent and their allocation, each with a key of its own.
func TestCSIMounts(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	first := state.CSIMount{AllocID: "a1", Namespace: "default", VolumeID: "x/y[0]", AccessMode: "single-node-writer", AttachmentMode: "file-system",
		State: "mounted", ExternalID: "ext", PluginID: "p", Options: "digest", Root: "/r", TaskRoot: "/t", Staging: "s", Target: "g", Boot: "b", Device: 7}
	reader, other := first, first
	reader.ReadOnly, other.Namespace = true, "team"
	for _, m := range []state.CSIMount{first, reader, other} {
		if err := db.PutCSIMount(&m); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DeleteAlloc("a1"); err != nil {
		t.Fatal(err)
	}
	db = reopen(t, db, dir)
	list := func() (out []state.CSIMount) {
		t.Helper()
		all, err := db.CSIMounts()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			out = append(out, *m)
		}
		slices.SortFunc(out, func(a, b state.CSIMount) int { return strings.Compare(a.Key(), b.Key()) })
		return out
	}
	if got, want := list(), []state.CSIMount{reader, first, other}; !slices.Equal(got, want) {
		t.Errorf("CSIMounts() = %+v\nwant %+v", got, want)
	}
	for range 2 { // the second is missing
		if err := db.DeleteCSIMount(first.Key()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := list(), []state.CSIMount{reader, other}; !slices.Equal(got, want) {
		t.Errorf("CSIMounts() = %+v\nwant %+v", got, want)
	}
}
