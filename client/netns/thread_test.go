package netns_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/netns"
)

// A thread that remained in a namespace would keep it, with its interfaces, after the allocation. With one processor,
// calls often run on the main thread, which never ends.
func TestNoThreadStays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s, _ := newSet(t)
	host := inode(t, "/proc/self/ns/net")
	for range 100 {
		path, err := s.Make("a1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := netns.Addresses(path, "lo"); err != nil {
			t.Fatal(err)
		}
		if err := netns.Inside(path, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil || len(threads) == 0 {
			t.Fatal(threads, err)
		}
		for _, ns := range threads {
			var st unix.Stat_t
			if err := unix.Stat(ns, &st); err == nil && st.Ino != host { // threads may end
				t.Fatalf("%s is in the namespace of the allocation", ns)
			}
		}
		if err := s.Remove("a1"); err != nil {
			t.Fatal(err)
		}
	}
}
