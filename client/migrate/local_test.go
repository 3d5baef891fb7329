package migrate_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Data is renamed on the same node, and dynamic owners are mapped. A repetition after a crash
// keeps what was moved.
func TestMove(t *testing.T) {
	from, to := newDisk(t), newDisk(t)
	fill(t, from)
	target := to.target()
	task := func(int) string { return "" }
	if os.Geteuid() == 0 {
		if err := os.Lchown(filepath.Join(from.path, "alloc/data/link"), 90_001, 90_001); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(from.path, "t/local/own"), 1234, 90_001); err != nil {
			t.Fatal(err)
		}
		task = func(uid int) string {
			if uid == 90_001 {
				return "t"
			}
			return ""
		}
		target.Owner = func(path, task string, uid, gid int) (int, int, error) {
			if task != "" {
				return 90_002, 90_003, nil
			}
			return uid, gid, nil
		}
	}
	for range 2 {
		if err := target.Move(from.dir, task); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(from.path, "alloc/data"), 0o755); err != nil { // as a restarted agent does
			t.Fatal(err)
		}
	}
	to.has("alloc/data/a", "first")
	to.has("t/local/own", "own")
	from.has("t/secrets/key", "secret")
	if os.Geteuid() != 0 {
		return
	}
	for name, want := range map[string][2]uint32{"alloc/data/link": {90_002, 90_003}, "t/local/own": {1234, 90_001}} {
		info, err := os.Lstat(filepath.Join(to.path, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d, want %v", name, st.Uid, st.Gid, want)
		}
	}
}
