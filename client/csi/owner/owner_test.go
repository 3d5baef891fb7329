package owner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/csi/owner"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

// task is the user of the task.
var task = owner.IDs{UID: 81234, GID: 81235}

// volume returns the root of a volume, outside of which is a file that must not change.
func volume(t *testing.T) (root, outside string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testnet.Missing(t, "only root changes owners")
	}
	dir := t.TempDir()
	root, outside = filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "a/b"), 0o755), os.WriteFile(filepath.Join(root, "a/b/file"), nil, 0o600),
		os.WriteFile(outside, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return root, outside
}

// ownerOf returns the owner of a file, without following a link.
func ownerOf(t *testing.T, name string) owner.IDs {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return owner.IDs{UID: int(st.Uid), GID: int(st.Gid)}
}

func TestGive(t *testing.T) {
	root, outside := volume(t)
	links := map[string]string{"link": outside, "a/dirlink": filepath.Dir(outside), "a/b/dangling": "/nowhere"}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(root, "program")
	if err := errors.Join(os.WriteFile(program, nil, 0o755), os.Chmod(program, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if err := owner.Give(context.Background(), root, task); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "a", "a/b", "a/b/file", "link", "a/dirlink", "a/b/dangling", "program"} {
		if got := ownerOf(t, filepath.Join(root, name)); got != task {
			t.Errorf("owner of %s = %v, want %v", name, got, task)
		}
	}
	for _, name := range []string{outside, filepath.Dir(outside)} {
		if got := ownerOf(t, name); got != (owner.IDs{}) {
			t.Errorf("owner of %s = %v, which is not in the volume", name, got)
		}
	}
	if info, err := os.Stat(program); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("the program of another user has mode %v: %v", info.Mode(), err)
	}
}

// TestGive_Once checks that a volume whose root has the owner is not read again, and that an interrupted change is repeated.
func TestGive_Once(t *testing.T) {
	root, _ := volume(t)
	file := filepath.Join(root, "a/b/file")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := owner.Give(ended, root, task); !errors.Is(err, context.Canceled) {
		t.Errorf("Give() of an ended task = %v", err)
	}
	empty := t.TempDir()
	if err := owner.Give(ended, empty, task); !errors.Is(err, context.Canceled) || ownerOf(t, empty) == task {
		t.Errorf("Give() of an empty volume to an ended task = %v, owner %v", err, ownerOf(t, empty))
	}
	if got := ownerOf(t, root); got == task {
		t.Error("the root has the owner before its files have it")
	}
	if err := owner.Give(context.Background(), root, task); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := owner.Give(context.Background(), root, task); err != nil || ownerOf(t, file) == task {
		t.Errorf("Give() = %v, owner of the file = %v: it was read again", err, ownerOf(t, file))
	}
	next := owner.IDs{UID: 81300, GID: 81300} // the next allocation has another user
	if err := owner.Give(context.Background(), root, next); err != nil || ownerOf(t, file) != next {
		t.Errorf("Give() = %v, owner of the file = %v", err, ownerOf(t, file))
	}
}

// TestGive_OtherFileSystem checks that mounts in a volume keep their owners.
func TestGive_OtherFileSystem(t *testing.T) {
	root, _ := volume(t)
	at := filepath.Join(root, "a/b")
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // cleanup
	if err := owner.Give(context.Background(), root, task); err != nil {
		t.Fatal(err)
	}
	if got := ownerOf(t, at); got != (owner.IDs{}) {
		t.Errorf("owner of a mount in the volume = %v", got)
	}
}

// TestGive_Deep checks that a deep tree is an error, and not a crash.
func TestGive_Deep(t *testing.T) {
	root, _ := volume(t)
	if err := os.MkdirAll(filepath.Join(root, strings.Repeat("d/", 300)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := owner.Give(context.Background(), root, task); err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("Give() = %v", err)
	}
	if got := ownerOf(t, root); got == task {
		t.Error("the root has the owner, but not all files")
	}
}

// TestGive_ReadOnly checks the advice for a file system that does not change owners.
func TestGive_ReadOnly(t *testing.T) {
	root, _ := volume(t)
	if err := errors.Join(unix.Mount(root, root, "", unix.MS_BIND, ""), unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH) //nolint:errcheck // cleanup
	if err := owner.Give(context.Background(), root, task); err == nil || !strings.Contains(err.Error(), "remove owner") {
		t.Errorf("Give() = %v", err)
	}
}

// TestGive_NoNumber checks that a user that only an image knows is refused.
func TestGive_NoNumber(t *testing.T) {
	root, _ := volume(t)
	if err := owner.Give(context.Background(), root, owner.IDs{UID: -1, GID: -1}); err == nil {
		t.Error("Give() to a user without a number = nil")
	}
	link := filepath.Join(filepath.Dir(root), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if err := owner.Give(context.Background(), link, task); err == nil || ownerOf(t, root) == task {
		t.Errorf("Give() through a link = %v", err)
	}
	device := filepath.Join(filepath.Dir(root), "device")
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 99))); err != nil {
		t.Fatal(err)
	}
	if err := owner.Give(context.Background(), device, task); err != nil || ownerOf(t, device) != task {
		t.Errorf("Give() of a device = %v, owner %v", err, fmt.Sprint(ownerOf(t, device)))
	}
}
