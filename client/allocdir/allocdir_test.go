package allocdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

const uid = 80001

func built(t *testing.T) (root string, d *allocdir.Dir, task *allocdir.Task) {
	t.Helper()
	base := t.TempDir()
	for _, dir := range []string{base, filepath.Dir(base)} { // allow other uids
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root = filepath.Join(base, "allocs")
	d, err := allocdir.Build(root, "a1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := allocdir.Destroy(root, "a1"); err != nil {
			t.Error(err)
		}
	})
	owner := uid
	if os.Geteuid() != 0 {
		owner = -1
	}
	task, err = d.BuildTask(allocdir.TaskConfig{Name: "web", UID: owner, GID: owner, SecretsMB: 2})
	if err != nil {
		t.Fatal(err)
	}
	return root, d, task
}

func TestLayout(t *testing.T) {
	_, d, task := built(t)
	defer d.Close()
	defer task.Close()
	sticky := fs.ModeSticky | 0o777
	owner := map[bool]uint32{true: uid, false: uint32(os.Getuid())}[os.Geteuid() == 0]
	for _, tc := range []struct {
		path string
		mode fs.FileMode
		uid  uint32
	}{
		{d.Path(), 0o710, uint32(os.Geteuid())},
		{d.SharedPath(), sticky, uint32(os.Geteuid())},
		{d.SharedPath() + "/data", 0o777, uint32(os.Geteuid())},
		{d.LogPath(), sticky, uint32(os.Geteuid())},
		{d.SharedPath() + "/tmp", sticky, uint32(os.Geteuid())},
		{task.Path(), sticky, uint32(os.Geteuid())},
		{task.LocalPath(), 0o777, owner},
		{task.SecretsPath(), 0o700, owner},
		{task.Path() + "/private", 0o700, uint32(os.Geteuid())},
		{task.Path() + "/tmp", sticky, uint32(os.Geteuid())},
	} {
		info, err := os.Lstat(tc.path)
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode() != fs.ModeDir|tc.mode {
			t.Errorf("%s has mode %v, want %v", tc.path, info.Mode(), fs.ModeDir|tc.mode)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != tc.uid {
			t.Errorf("%s belongs to %d, want %d", tc.path, got, tc.uid)
		}
	}
}

func TestSecretsAreInMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	root, d, task := built(t)
	if err := task.Secrets().Replace("token", []byte("x"), task.Secret()); err != nil {
		t.Fatal(err)
	}
	if task.Root().Mounted("private") {
		t.Error("private is mounted before its first use")
	}
	for range 2 { // the second call changes nothing
		private, err := task.Private()
		if err != nil {
			t.Fatal(err)
		}
		if err := private.Replace("resolv.conf", []byte("x"), safefs.File{Mode: 0o444, UID: -1, GID: -1}); err != nil {
			t.Error(err)
		}
		private.Close()
	}
	for name, size := range map[string]uint64{"secrets": 2 << 20, "private": 2 << 20} {
		var st syscall.Statfs_t
		if err := syscall.Statfs(filepath.Join(task.Path(), name), &st); err != nil {
			t.Fatal(err)
		}
		const flags = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
		if st.Flags&flags != flags {
			t.Errorf("%s is mounted with flags %#x, want noexec, nosuid and nodev", name, st.Flags)
		}
		if st.Type != 0x01021994 || st.Blocks*uint64(st.Bsize) != size {
			t.Errorf("%s is of type %#x with %d bytes, want a tmpfs of %d", name, st.Type, st.Blocks*uint64(st.Bsize), size)
		}
		if _, err := os.Stat(filepath.Join(task.Path(), name, ".nomad-mount")); err != nil {
			t.Errorf("%s has no marker: %v", name, err)
		}
	}

	// A later agent keeps the directory and mounts nothing over it.
	task.Close()
	d.Close()
	d, err := allocdir.Build(root, "a1")
	if err != nil {
		t.Fatal(err)
	}
	task, err = d.BuildTask(allocdir.TaskConfig{Name: "web", UID: uid, GID: uid})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := task.Secrets().ReadFile("token", 10); err != nil || string(b) != "x" {
		t.Errorf("token after a restart = %q, %v", b, err)
	}
	if err := task.Forget(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(task.SecretsPath()); len(left) != 0 {
		t.Errorf("secrets after Forget: %v, want none", left)
	}
	if left, _ := os.ReadDir(filepath.Join(filepath.Dir(task.SecretsPath()), "private")); len(left) != 0 {
		t.Errorf("private after Forget: %v, want nothing", left)
	}
	d.Close()
}

// An agent that is not root keeps secrets on disk.
func TestForgetWithoutMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runs only without root")
	}
	_, d, task := built(t)
	defer d.Close()
	if err := task.Root().Unmount("secrets"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(task.SecretsPath()+"/nomad_token", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := task.Forget(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(task.SecretsPath()); len(left) != 0 {
		t.Errorf("secrets after Forget: %v, want none", left)
	}
}

// The directories are sticky and owned by root.
func TestTaskCannotMoveItsDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs another uid")
	}
	_, d, task := built(t)
	defer d.Close()
	defer task.Close()
	for path, mode := range map[string]fs.FileMode{d.SharedPath() + "/logs": 0, task.Path() + "/tmp": 0} {
		err := asUser(t, func() error { return os.Rename(path, path+".moved") })
		if err == nil {
			t.Errorf("another uid moved %s away (%v)", path, mode)
		}
	}
	if err := asUser(t, func() error { return os.WriteFile(task.LocalPath()+"/mine", nil, 0o600) }); err != nil {
		t.Errorf("the task cannot write to its own directory: %v", err)
	}
}

// TestOtherUsersCannotEnter checks that only the users of tasks can enter the allocation's directory, also
// after a restart of the agent, and that a restart does not lock them out.
func TestOtherUsersCannotEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs another uid")
	}
	root, d, task := built(t)
	defer d.Close()
	defer task.Close()
	image, err := d.BuildTask(allocdir.TaskConfig{Name: "image", UID: uid + 2, GID: uid + 2, Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	image.Close()
	second, err := d.BuildTask(allocdir.TaskConfig{Name: "second", UID: uid + 1, GID: uid + 1})
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	for range 2 {
		for user, want := range map[int]bool{uid: true, uid + 1: true, uid + 2: false, uid + 3: false} {
			for _, dir := range []string{d.SharedPath() + "/data", task.LocalPath(), d.Path() + "/image/local"} {
				err := as(t, user, func() error {
					f, err := os.CreateTemp(dir, "x")
					if err == nil {
						f.Close()
					}
					return err
				})
				if (err == nil) != want {
					t.Errorf("user %d creates a file in %s: %v, want %v", user, dir, err, want)
				}
			}
		}
		again, err := allocdir.Build(root, "a1")
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	}
}

// TestOtherUsersCannotEnter_Containers checks that no user can enter the directory of an allocation whose tasks all have
// users of an image, so that it has no access control list.
func TestOtherUsersCannotEnter_Containers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs another uid")
	}
	root, first, task := built(t) // which lets users reach the directory of all allocations
	defer first.Close()
	defer task.Close()
	d, err := allocdir.Build(root, "a2")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer func() {
		if err := allocdir.Destroy(root, "a2"); err != nil {
			t.Error(err)
		}
	}()
	image, err := d.BuildTask(allocdir.TaskConfig{Name: "image", UID: uid + 2, GID: uid + 2, Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	image.Close()
	for _, user := range []int{uid, uid + 2, uid + 3} {
		for _, dir := range []string{d.SharedPath() + "/data", d.Path() + "/image/local"} {
			if err := as(t, user, func() error { return os.WriteFile(dir+"/x", nil, 0o600) }); err == nil {
				t.Errorf("user %d creates a file in %s", user, dir)
			}
		}
	}
}

func TestDestroy(t *testing.T) {
	root, d, task := built(t)
	host := filepath.Join(filepath.Dir(root), "host")
	if err := os.WriteFile(host, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(host), filepath.Join(task.LocalPath(), "link")); err != nil {
		t.Fatal(err)
	}
	task.Close()
	if err := d.Destroy(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(d.Path()); !os.IsNotExist(err) {
		t.Errorf("directory after Destroy: %v, want it gone", err)
	}
	if _, err := os.Stat(host); err != nil {
		t.Errorf("a file behind a link was removed: %v", err)
	}
	if err := allocdir.Destroy(root, "a1"); err != nil {
		t.Errorf("Destroy() of a missing directory = %v", err)
	}
	if err := allocdir.Destroy(filepath.Join(root, "absent"), "a1"); err != nil {
		t.Errorf("Destroy() below a missing directory = %v", err)
	}
}

func TestReservedTaskNames(t *testing.T) {
	_, d, task := built(t)
	defer d.Close()
	defer task.Close()
	for _, name := range []string{"alloc", "", ".", "..", "a/b", "../x"} {
		if got, err := d.BuildTask(allocdir.TaskConfig{Name: name, UID: -1, GID: -1}); err == nil {
			got.Close()
			t.Errorf("BuildTask(%q) = nil, want an error", name)
		}
	}
}
