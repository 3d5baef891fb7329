package allocdir

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMemoryAhead: a file system in memory that was made ahead becomes that of a task which
// asks for no other size.
func TestMemoryAhead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has file systems in memory")
	}
	base := t.TempDir()
	root := filepath.Join(base, "alloc")
	s := NewSpares(filepath.Join(base, "client"), root, slog.New(slog.DiscardHandler))
	for range spareEach + 1 { // one more than there is room for
		if err := s.makeMemory(); err != nil {
			t.Fatal(err)
		}
	}
	ahead := map[uint64]bool{}
	for range spareEach {
		fs, ok := s.takeMemory()
		if !ok {
			t.Fatalf("%d were made, want %d", len(ahead), spareEach)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fs.FD(), &st); err != nil {
			t.Fatal(err)
		}
		ahead[st.Dev] = true
		s.memory <- fs
	}
	d, err := s.Build(root, "id")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name   string
		sizeMB int // asked for
		want   uint64
		ahead  bool
	}{{"plain", 0, 1, true}, {"same", defaultSecretsMB, 1, true}, {"larger", 3, 3, false}} {
		task, err := d.BuildTask(TaskConfig{Name: c.name, UID: -1, GID: -1, SecretsMB: c.sizeMB})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(task.Close)
		var st unix.Stat_t
		var fs unix.Statfs_t
		if err := unix.Fstat(task.secrets.FD(), &st); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fstatfs(task.secrets.FD(), &fs); err != nil {
			t.Fatal(err)
		}
		const flags = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
		if ahead[st.Dev] != c.ahead || fs.Blocks*uint64(fs.Bsize) != c.want<<20 || fs.Flags&flags != flags || st.Mode != unix.S_IFDIR|0o700 {
			t.Errorf("%s: made ahead: %t, %d bytes, flags %#x, mode %o", c.name, ahead[st.Dev], fs.Blocks*uint64(fs.Bsize), fs.Flags, st.Mode)
		}
		if !task.secrets.Exists(mountMarker) {
			t.Errorf("%s: not marked", c.name)
		}
	}
	if len(s.memory) != spareEach-2 {
		t.Errorf("%d are left, want all but 2", len(s.memory))
	}
}
