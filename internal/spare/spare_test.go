package spare_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/spare"
)

// rig is a pool of files and directories that runs until the test ends.
type rig struct {
	t    *testing.T
	dir  string
	pool *spare.Pool
	stop func()
}

// Kinds of the rig.
const (
	file = iota
	tree
)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "spare")}
	r.pool = spare.New(r.dir, slog.New(slog.DiscardHandler),
		spare.Kind{Letter: "f", Most: 20, Make: func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		spare.Kind{Letter: "d", Most: 10, Make: func(path string) error { return os.MkdirAll(filepath.Join(path, "in"), 0o700) }})
	return r
}

// filled is one that has made all of them.
func filled(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.run()
	r.await(20, 10)
	return r
}

// run starts to make them.
func (r *rig) run() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.pool.Run(ctx) //nolint:errcheck // it ends with ctx
	}()
	r.stop = func() { cancel(); <-done }
	r.t.Cleanup(r.stop)
}

// await waits until so many of each lie ready.
func (r *rig) await(files, dirs int) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		f, d := r.made("f*"), r.made("d*")
		if len(f) == files && len(d) == dirs {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("made ahead: %q, %q, want %d and %d", f, d, files, dirs)
		}
	}
}

func (r *rig) made(pattern string) []string {
	names, _ := filepath.Glob(filepath.Join(r.dir, pattern)) // the pattern is right
	return names
}

// place asks for one in the directory to.
func (r *rig) place(kind int, to, name string) bool {
	r.t.Helper()
	at, err := os.Open(to)
	if err != nil {
		r.t.Fatal(err)
	}
	defer at.Close()
	return r.pool.Place(kind, int(at.Fd()), name)
}

// TestPool: what is taken has been there and is made again; what an earlier process left is
// removed first, and all in the end.
func TestPool(t *testing.T) {
	r := newRig(t)
	if err := os.MkdirAll(filepath.Join(r.dir, "f1", "left"), 0o700); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if r.place(file, to, "early") {
		t.Error("Place() has one before Run")
	}
	r.run()
	r.await(20, 10)
	if info, err := os.Stat(r.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("Stat() = %v, %v, want 0700", info, err)
	}
	old := r.made("*")
	for _, name := range []string{"a", "b", "c"} {
		if !r.place(file, to, name) || !r.place(tree, to, name+".d") {
			t.Errorf("Place(%q) = false", name)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "a")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("Stat(a) = %v, %v", info, err)
	}
	r.await(20, 10)
	if kept := slices.DeleteFunc(r.made("*"), func(name string) bool { return !slices.Contains(old, name) }); len(kept) != 24 {
		t.Errorf("%d of the first 30 are left, want all but 6", len(kept))
	}
	r.stop()
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("after the end: %v, want nothing left", err)
	}
	if r.place(file, to, "late") {
		t.Error("Place() has one after the end")
	}
}

// TestNothingIsReplaced: a name that is taken stays, and the spare is for somebody else.
func TestNothingIsReplaced(t *testing.T) {
	r := filled(t)
	to := t.TempDir()
	if err := os.Symlink("elsewhere", filepath.Join(to, "a")); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if r.place(file, to, "a") {
			t.Fatal("Place() replaced a link")
		}
	}
	if got, err := os.Readlink(filepath.Join(to, "a")); got != "elsewhere" {
		t.Errorf("Readlink() = %q, %v", got, err)
	}
	r.await(20, 10)
	if !r.place(file, to, "b") {
		t.Error("Place() = false after a name that was taken")
	}
}

// TestOneLevelDown: a name leads nowhere else.
func TestOneLevelDown(t *testing.T) {
	r := filled(t)
	to := t.TempDir()
	if err := os.Mkdir(filepath.Join(to, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../a", "in/a", filepath.Join(to, "a")} {
		if r.place(file, filepath.Join(to, "in"), name) {
			t.Errorf("Place(%q) = true", name)
		}
	}
	if !r.place(file, to, "a") {
		t.Error("Place() = false after that")
	}
}

// TestHeirs: where what is made gets more from its directory than its place, nothing of
// elsewhere is put.
func TestHeirs(t *testing.T) {
	r := filled(t)
	group := t.TempDir()
	if err := os.Chmod(group, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if r.place(file, group, "a") {
		t.Error("Place() in a directory whose group is inherited")
	}
	acl := t.TempDir()
	// Version 2; the owner, the group, others: rwx, each without an ID.
	list := []byte{2, 0, 0, 0}
	for _, tag := range []byte{0x01, 0x04, 0x20} {
		list = append(list, tag, 0, 7, 0, 0xff, 0xff, 0xff, 0xff)
	}
	if err := unix.Setxattr(acl, "system.posix_acl_default", list, 0); err != nil {
		t.Skipf("this file system has no access control lists: %v", err)
	}
	if r.place(file, acl, "a") {
		t.Error("Place() in a directory whose access control list is inherited")
	}
}

// TestElsewhere: for another file system nothing is made once that is known.
func TestElsewhere(t *testing.T) {
	to, err := os.MkdirTemp("/dev/shm", "nomad-test-")
	if err != nil {
		t.Skipf("needs another file system: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(to) })
	r := newRig(t)
	var a, b unix.Stat_t
	if unix.Stat(to, &a) != nil || unix.Stat(t.TempDir(), &b) != nil || a.Dev == b.Dev {
		t.Skip("temporary files lie in /dev/shm")
	}
	r.run()
	r.await(20, 10)
	if r.place(file, to, "a") {
		t.Error("Place() on another file system")
	}
	r.await(0, 0)
	if r.place(file, t.TempDir(), "a") {
		t.Error("Place() after that")
	}
}

// TestNone: who has no pool makes everything.
func TestNone(t *testing.T) {
	if (*spare.Pool)(nil).Place(file, -1, "a") {
		t.Error("Place() = true")
	}
}
