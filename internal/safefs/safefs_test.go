package safefs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// inner returns a directory, with a canary file outside of it.
func inner(t *testing.T) (d *safefs.Dir, path, canary string) {
	t.Helper()
	base := t.TempDir()
	canary = filepath.Join(base, "canary")
	path = filepath.Join(base, "inner")
	if err := errors.Join(os.WriteFile(canary, []byte("host"), 0o600), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	d, err := safefs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, path, canary
}

var plain = safefs.File{Mode: 0o640, UID: -1, GID: -1}

func TestNothingLeadsOut(t *testing.T) {
	d, path, canary := inner(t)
	for name, target := range map[string]string{"link": canary, "dir": filepath.Dir(canary), "up": "../canary"} {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "up", "dir/canary", "../canary", "/etc/passwd", "x/../../canary"} {
		t.Run(name, func(t *testing.T) {
			if b, err := d.ReadFile(name, 100); err == nil {
				t.Errorf("ReadFile() = %q, want an error", b)
			}
			if name == "link" || name == "up" {
				return // replaced in place: see TestReplaceTakesTheLinksPlace
			}
			if err := d.Replace(name, []byte("task"), plain); err == nil {
				t.Error("Replace() = nil, want an error")
			}
		})
	}
	if sub, err := d.Sub("dir"); err == nil {
		t.Errorf("Sub(link) = %v, want an error", sub.Name())
	}
	if sub, err := d.Sub("dir/inner"); !errors.Is(err, safefs.ErrEscape) {
		t.Errorf("Sub() through a link = %v, %v, want ErrEscape", sub, err)
	}
	if sub, err := d.MakeAll("dir/made", 0o755, -1, -1); err == nil {
		t.Errorf("MakeAll() through a link = %v, want an error", sub)
	}
	if got, _ := os.ReadFile(canary); string(got) != "host" {
		t.Errorf("canary = %q, want it untouched", got)
	}
}

func TestReplaceTakesTheLinksPlace(t *testing.T) {
	d, path, canary := inner(t)
	if err := os.Symlink(canary, filepath.Join(path, "token")); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace("token", []byte("secret"), safefs.File{Mode: 0o600, UID: os.Getuid(), GID: os.Getgid()}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(canary); string(got) != "host" {
		t.Errorf("canary = %q, want it untouched", got)
	}
	info, err := os.Lstat(filepath.Join(path, "token"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("token is %v, %v, want a plain file 0600", info.Mode(), err)
	}
	if names, _ := os.ReadDir(path); len(names) != 1 {
		t.Errorf("directory holds %v, want the token only", names)
	}
}

// TestReplaceUnderSwap calls Replace while a task repeatedly exchanges a parent directory and a
// link to the host.
func TestReplaceUnderSwap(t *testing.T) {
	d, path, canary := inner(t)
	sub, aside := filepath.Join(path, "sub"), filepath.Join(path, "aside")
	if err := os.Mkdir(sub, 0o777); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(sub, aside)
			os.Symlink(filepath.Dir(canary), sub)
			os.Remove(sub)
			os.Rename(aside, sub)
		}
	})
	for range 2000 {
		if err := d.Replace("sub/canary", []byte("task"), plain); err != nil {
			continue // the exchange was noticed
		}
	}
	close(stop)
	wg.Wait()
	if got, _ := os.ReadFile(canary); string(got) != "host" {
		t.Errorf("canary = %q, want it untouched", got)
	}
}

func TestOpenTakesPlainFilesOnly(t *testing.T) {
	d, path, _ := inner(t)
	if err := syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := d.Open("pipe"); err == nil {
		t.Errorf("Open(pipe) = %v, want an error without blocking", f.Name())
	}
	if err := d.Replace("big", make([]byte, 11), plain); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadFile("big", 10); err == nil {
		t.Error("ReadFile() of 11 bytes within 10 = nil, want an error")
	}
	if b, err := d.ReadFile("big", 11); err != nil || len(b) != 11 {
		t.Errorf("ReadFile() of 11 bytes within 11 = %d bytes, %v", len(b), err)
	}
}

func TestModes(t *testing.T) {
	d, path, _ := inner(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	sub, err := d.Make("sticky", 0o777|fs.ModeSticky)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if info, _ := os.Stat(filepath.Join(path, "sticky")); info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("mode = %v, want the requested mode, regardless of the umask", info.Mode())
	}
}

func TestRemoveAll(t *testing.T) {
	d, path, canary := inner(t)
	if err := errors.Join(
		os.MkdirAll(filepath.Join(path, "tree/deep"), 0o755),
		os.Symlink(filepath.Dir(canary), filepath.Join(path, "tree/link")),
		os.Symlink(filepath.Dir(canary), filepath.Join(path, "link")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree", "link", "absent"} {
		if err := d.RemoveAll(name); err != nil {
			t.Errorf("RemoveAll(%s) = %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../canary", "a/b"} {
		if err := d.RemoveAll(name); err == nil {
			t.Errorf("RemoveAll(%q) = nil, want an error", name)
		}
	}
	if names, _ := os.ReadDir(path); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	if got, _ := os.ReadFile(canary); string(got) != "host" {
		t.Errorf("canary = %q, want it untouched", got)
	}
}

func TestTmpfs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	d, path, _ := inner(t)
	sub, err := d.Make("secrets", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	sub.Close()
	if err := d.MountTmpfs("secrets", safefs.Tmpfs{SizeMB: 1, Mode: 0o700, UID: 80001, GID: 80001}); err != nil {
		t.Fatal(err)
	}
	defer d.Unmount("secrets")
	where := filepath.Join(path, "secrets")
	var st syscall.Statfs_t
	if err := syscall.Statfs(where, &st); err != nil {
		t.Fatal(err)
	}
	const want = 0x2 | 0x4 | 0x8 // nosuid, nodev, noexec
	if st.Type != 0x01021994 || st.Flags&want != want {
		t.Errorf("type %#x flags %#x, want tmpfs with nosuid, nodev, noexec", st.Type, st.Flags)
	}
	if size := st.Blocks * uint64(st.Bsize); size != 1<<20 {
		t.Errorf("size = %d, want 1 MiB", size)
	}
	if !d.Mounted("secrets") {
		t.Error("Mounted() = false, want true")
	}
	if err := d.RemoveAll("secrets"); err == nil {
		t.Error("RemoveAll() of a mount point = nil, want an error")
	}
	if err := d.Unmount("secrets"); err != nil || d.Mounted("secrets") {
		t.Errorf("Unmount() = %v, mounted %t", err, d.Mounted("secrets"))
	}
	if err := d.Unmount("secrets"); err != nil {
		t.Errorf("Unmount() of a directory that is not mounted = %v", err)
	}
	if err := d.Unmount("absent"); err != nil {
		t.Errorf("Unmount() of a missing name = %v", err)
	}
}
