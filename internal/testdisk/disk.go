// Package testdisk provides small file systems for tests of full disks. A disk is a tmpfs that is
// unmounted when the test ends. Without the right to mount, a test is skipped.
package testdisk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a mounted tmpfs.
type Disk struct {
	Dir string
	t   testing.TB
}

// New mounts a disk of a size such as "64k" or "8m". With open, users other than root can traverse
// it, as tasks do.
func New(t testing.TB, size string, open bool) Disk {
	t.Helper()
	mode := "0700"
	if open {
		mode = "0755"
	}
	d := Disk{Dir: t.TempDir(), t: t}
	switch err := unix.Mount("tmpfs", d.Dir, "tmpfs", 0, "mode="+mode+",size="+size); {
	case errors.Is(err, unix.EPERM):
		t.Skip("a small disk cannot be mounted: run the tests as root")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Fill takes all but left bytes.
func (d Disk) Fill(left uint64) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if free := st.Bfree * uint64(st.Bsize); free > left {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(free-left)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Free releases the space that Fill took.
func (d Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}

func (d Disk) filler() string { return filepath.Join(d.Dir, "filler") }
