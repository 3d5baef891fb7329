package migrate_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestFetch_Owners checks what the receiver learns of the owners: a group that only the sender has does not arrive as
// a number.
func TestFetch_Owners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: owners of files")
	}
	from, to := newDisk(t), newDisk(t)
	const dynamic = 90_001
	want := map[string]string{}
	for name, f := range map[string]struct {
		uid, gid int
		want     string
	}{
		"both":  {dynamic, dynamic, "t 90001 90001"},
		"user":  {dynamic, 50, "t 90001 50"},
		"group": {1000, dynamic, " 1000 0"},
		"none":  {1000, 50, " 1000 50"},
	} {
		from.write("alloc/data/"+name, name)
		if err := os.Chown(filepath.Join(from.path, "alloc/data", name), f.uid, f.gid); err != nil {
			t.Fatal(err)
		}
		want["alloc/data/"+name] = f.want
	}
	source := from.source()
	source.TaskOf = func(id int) string {
		if id == dynamic {
			return "t"
		}
		return ""
	}
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := source.Serve(w, r); err != nil {
			t.Error(err)
		}
	})
	target, got := to.target(), map[string]string{}
	target.Owner = func(path, task string, uid, gid int) (int, int, error) {
		got[path] = fmt.Sprintf("%s %d %d", task, uid, gid)
		return 0, 0, nil
	}
	stream := node.Stream(t.Context(), limits())
	defer stream.Close()
	if err := target.Receive(stream, limits()); err != nil {
		t.Fatal(err)
	}
	for name, want := range want {
		if got[name] != want {
			t.Errorf("owner of %s = %q, want %q", name, got[name], want)
		}
	}
}
