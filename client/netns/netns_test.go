package netns_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/netns"
)

func newSet(t *testing.T) (*netns.Set, string) {
	t.Helper()
	if !netns.Possible() {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "netns")
	s := netns.New(dir)
	t.Cleanup(func() { // a remaining mount would block the removal of the directory
		if err := s.Sweep(func(string) bool { return false }); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// inode identifies a namespace.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// enter calls inspect on a thread in the namespace, and restores the thread's own.
func enter(t *testing.T, path string, inspect func() error) error {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(before)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = inspect()
	return errors.Join(err, unix.Setns(before, unix.CLONE_NEWNET))
}

func TestNamespaceHasLoopbackOnly(t *testing.T) {
	s, _ := newSet(t)
	path, err := s.Make("a1")
	if err != nil {
		t.Fatal(err)
	}
	err = enter(t, path, func() error {
		all, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, ifc := range all {
			if ifc.Flags&net.FlagUp != 0 && ifc.Name != "lo" {
				t.Errorf("interface %s is up", ifc.Name)
			}
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		conn, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			return err
		}
		conn.Close()
		if conn, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
			conn.Close()
			t.Error("the namespace has a route to the outside")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if inode(t, path) == inode(t, "/proc/self/ns/net") {
		t.Error("the namespace is the agent's own")
	}
}

func TestMakeKeepsExisting(t *testing.T) {
	s, dir := newSet(t)
	path, err := s.Make("a1")
	if err != nil {
		t.Fatal(err)
	}
	before, host := inode(t, path), inode(t, "/proc/self/ns/net")
	if again, err := netns.New(dir).Make("a1"); err != nil || again != path || inode(t, path) != before {
		t.Errorf("Make() of another agent = %s, %v; another namespace: %v", again, err, inode(t, path) != before)
	}
	other, err := s.Make("a2")
	if err != nil || inode(t, other) == before {
		t.Errorf("two allocations share a namespace, or %v", err)
	}
	if inode(t, "/proc/self/ns/net") != host {
		t.Error("the process has changed its namespace")
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v, want 0700", info.Mode(), err)
	}
}

// After a reboot the files exist, without a mount.
func TestMakeAfterBoot(t *testing.T) {
	s, dir := newSet(t)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "a1"), nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	path, err := s.Make("a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := enter(t, path, func() error { return nil }); err != nil {
		t.Errorf("enter: %v", err)
	}
}

func TestRemoveAndSweep(t *testing.T) {
	s, dir := newSet(t)
	for _, name := range []string{"a1", "a2", "a3"} {
		if _, err := s.Make(name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a missing namespace is not an error
		if err := s.Remove("a1"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Sweep(func(id string) bool { return id == "a3" }); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "a3" {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if _, err := s.Make("../a4"); err == nil {
		t.Error("a name escapes the directory")
	}
	if err := netns.New(filepath.Join(dir, "absent")).Remove("a1"); err != nil {
		t.Error(err)
	}
}

// A link in place of the file is not followed.
func TestMakeFollowsNoLink(t *testing.T) {
	s, dir := newSet(t)
	canary := filepath.Join(t.TempDir(), "canary")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(canary, nil, 0o600), os.Symlink(canary, filepath.Join(dir, "a1"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Make("a1"); err == nil {
		t.Error("Make() follows a link")
	}
}

// Concurrent calls leave every thread in its own namespace.
func TestConcurrentCalls(t *testing.T) {
	s, dir := newSet(t)
	host := inode(t, "/proc/self/ns/net")
	made := make(chan error)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		go func() {
			_, err := s.Make(name)
			made <- err
		}()
	}
	for range names {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads: %v, %v", tasks, err)
	}
	if slices.ContainsFunc(tasks, func(p string) bool { return inode(t, p) != host }) {
		t.Error("a thread is still in another namespace")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != len(names) {
		t.Errorf("%d namespaces, want %d", len(entries), len(names))
	}
}
