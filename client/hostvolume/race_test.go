package hostvolume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// A path is exchanged at least swaps times during at least minOperations operations. enough bounds a slow machine.
const (
	swaps         = 100_000
	minOperations = 10
	enough        = 2 * time.Minute
)

// race counts the operations, and ends when stop is set.
type race struct {
	operations atomic.Int64
	stop       atomic.Bool
}

// goesOn reports whether n exchanges, or the operations so far, are too few.
func (r *race) goesOn(n int) bool {
	return (n < swaps || r.operations.Load() < minOperations) && !r.stop.Load()
}

// swap exchanges a directory with a link to outside until the counts are reached, and returns how often it did. It makes
// both again when an operation removed them.
func swap(dir, a, b, outside string, r *race) int {
	fd, n := -1, 0
	defer func() { unix.Close(fd) }()
	for r.goesOn(n) {
		err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
		if err == nil {
			n++
			continue
		}
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EBADF) {
			unix.Close(fd)
			fd, _ = unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			unix.Mkdirat(fd, a, 0o700)              //nolint:errcheck // an operation may make it too
			unix.Unlinkat(fd, b, unix.AT_REMOVEDIR) //nolint:errcheck // it is a directory, a link, or gone
			unix.Symlinkat(outside, fd, b)          //nolint:errcheck // it may exist
		}
	}
	return n
}

// The directory of a volume, and one in it, are exchanged with links to another directory while volumes are created and
// deleted. Nothing outside is created, changed or removed.
func TestPathsAreExchanged(t *testing.T) {
	for name, inside := range map[string]bool{"the volume": false, "a directory in it": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			outside := filepath.Join(filepath.Dir(w.dir), "outside")
			for _, dir := range []string{w.dir, filepath.Join(outside, "sub")} {
				if err := os.MkdirAll(dir, 0o711); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{"kept", "sub/kept"} {
				if err := os.WriteFile(filepath.Join(outside, file), []byte(file), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, outside)
			req := mkdirRequest("data", map[string]string{"mode": "0777"})
			dir, a := w.dir, req.ID
			if inside {
				dir, a = filepath.Join(w.dir, req.ID), "d"
			}
			var r race
			timer := time.AfterFunc(enough, func() { r.stop.Store(true) })
			defer timer.Stop()
			done := make(chan int, 1)
			go func() { done <- swap(dir, a, "swap", outside, &r) }()
			n := -1
			for n < 0 {
				w.create(req) //nolint:errcheck // it may meet a link
				w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data",
					PluginID: "mkdir"}) //nolint:errcheck // it may meet a change
				r.operations.Add(1)
				select {
				case n = <-done:
				default:
				}
			}
			operations := r.operations.Load()
			t.Logf("%d exchanges during %d operations", n, operations)
			if n < swaps && !r.stop.Load() || operations < minOperations {
				t.Errorf("%d exchanges during %d operations", n, operations)
			}
			if after := tree(t, outside); after != before {
				t.Errorf("outside the volumes was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// tree returns the files below a directory with their modes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			out.WriteString(path + " " + info.Mode().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
