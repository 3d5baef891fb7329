package allocdir_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
)

// spares runs some until the test ends, and waits until all are there.
func spares(t *testing.T, state, root string) (s *allocdir.Spares, stop func()) {
	t.Helper()
	s = allocdir.NewSpares(state, root, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx) //nolint:errcheck // it ends with ctx
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); len(made(state)) < 16; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("made ahead: %q", made(state))
		}
	}
	return s, stop
}

func made(state string) []string {
	names, _ := filepath.Glob(filepath.Join(state, "spare", "*")) // the pattern is right
	return names
}

// tree lists what is below a directory, with modes and owners.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		out = append(out, strings.Join([]string{strings.TrimPrefix(path, root), info.Mode().String(), time.Duration(st.Uid).String(), time.Duration(st.Gid).String()}, " "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSpares: what was made ahead becomes the same as what is made when it is needed, for
// the first task as for those after it, and for a second start; what is not used goes with
// the agent.
func TestSpares(t *testing.T) {
	for name, above := range map[string]string{"in /tmp": "/tmp", "elsewhere": "/var/tmp"} {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp(above, "nomad-test-")
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { os.RemoveAll(base) })
			testSpares(t, base)
		})
	}
}

func testSpares(t *testing.T, base string) {
	state, root := filepath.Join(base, "client"), filepath.Join(base, "alloc")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	s, stop := spares(t, state, root)
	if info, err := os.Stat(filepath.Join(state, "spare")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("Stat() = %v, %v, want 0700", info, err)
	}
	owner := uid
	if os.Geteuid() != 0 {
		owner = -1
	}
	var trees [][]string
	for _, from := range []*allocdir.Spares{s, nil, s} { // the third finds what the first built
		id := map[bool]string{true: "ahead", false: "plain"}[from != nil]
		spare, inodes := len(made(state)), []uint64{}
		for _, name := range made(state) {
			inodes = append(inodes, inode(t, name))
		}
		d, err := from.Build(root, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []allocdir.TaskConfig{{Name: "web", UID: owner, GID: owner}, {Name: "side", UID: owner, GID: owner, Private: true}} {
			task, err := d.BuildTask(cfg)
			if err != nil {
				t.Fatal(err)
			}
			task.Close()
		}
		d.Close()
		t.Cleanup(func() {
			if err := allocdir.Destroy(root, id); err != nil {
				t.Error(err)
			}
		})
		trees = append(trees, tree(t, filepath.Join(root, id)))
		if len(trees) == 1 {
			for _, name := range []string{"", "web", "side"} {
				if !slices.Contains(inodes, inode(t, filepath.Join(root, id, name))) {
					t.Errorf("directory %q was not made ahead, though %d were", name, spare)
				}
			}
		}
	}
	// On which the sandbox will mount, in the task that has /tmp for itself.
	point, want := filepath.Join("/side/tmp", filepath.Base(base))+" drwx--x--x ", filepath.Dir(base) == "/tmp"
	for i, got := range trees {
		n := len(got)
		got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, point) })
		if has := len(got) < n; has != (want && i != 1) {
			t.Errorf("build %d has a mount point: %t", i, has)
		}
		if !slices.Equal(got, trees[1]) {
			t.Errorf("build %d is\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(trees[1], "\n"))
		}
	}
	stop()
	if left := made(state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// TestSparesElsewhere: with alloc_dir on another file system directories are made as
// without spares, and no more are made ahead.
func TestSparesElsewhere(t *testing.T) {
	root, err := os.MkdirTemp("/dev/shm", "nomad-test-")
	if err != nil {
		t.Skipf("needs another file system: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	state := t.TempDir()
	s, _ := spares(t, state, root)
	for _, id := range []string{"a1", "a2"} {
		d, err := s.Build(root, id)
		if err != nil {
			t.Fatal(err)
		}
		task, err := d.BuildTask(allocdir.TaskConfig{Name: "web", UID: -1, GID: -1})
		if err != nil {
			t.Fatal(err)
		}
		task.Close()
		if err := d.Destroy(); err != nil {
			t.Error(err)
		}
	}
}
