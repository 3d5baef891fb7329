package safefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

func TestEach(t *testing.T) {
	d, path, canary := inner(t)
	err := errors.Join(os.Mkdir(filepath.Join(path, "dir"), 0o750), os.Symlink(canary, filepath.Join(path, "link")),
		syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600), os.WriteFile(filepath.Join(path, "file"), []byte("text"), 0o640),
		os.Link(filepath.Join(path, "file"), filepath.Join(path, "hard")),
		os.Chmod(filepath.Join(path, "file"), 0o640|fs.ModeSetuid|fs.ModeSticky|fs.ModeSetgid))
	if err != nil {
		t.Fatal(err)
	}
	special := fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	want := map[string]string{
		"dir": fmt.Sprint(fs.ModeDir|0o750, " 2"), "link": fmt.Sprint(fs.ModeSymlink|0o777, " 1"),
		"pipe": fmt.Sprint(fs.ModeNamedPipe|0o600, " 1"),
		"file": fmt.Sprint(special|0o640, " 2"), "hard": fmt.Sprint(special|0o640, " 2"),
	}
	for range 2 { // the position of the directory does not matter
		got := map[string]string{}
		if err := d.Each(func(name string, i safefs.Info) error {
			got[name] = fmt.Sprint(i.Mode, " ", i.Links)
			if i.UID != os.Getuid() || name == "file" && i.Size != 4 {
				t.Errorf("%s: %+v", name, i)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Each() = %v, want %v", got, want)
		}
	}
	stop := errors.New("stop")
	if err := d.Each(func(string, safefs.Info) error { return stop }); err != stop {
		t.Errorf("Each() = %v, want the caller's error", err)
	}
}

func TestEachOfRemoved(t *testing.T) {
	d, path, _ := inner(t)
	if err := os.Mkdir(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	sub, err := d.Sub("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	list, err := sub.Sub(".")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if err := os.Remove(filepath.Join(path, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := sub.Each(func(string, safefs.Info) error { return errors.New("an entry") }); err != nil {
		t.Errorf("Each() of a removed directory = %v", err)
	}
}

func TestEachOfMany(t *testing.T) {
	d, path, _ := inner(t)
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	if err := d.Each(func(string, safefs.Info) error { n++; return nil }); err != nil || n != 2000 {
		t.Errorf("Each() visits %d entries, %v", n, err)
	}
}

// The changes of a link do not reach its target.
func TestSetOnLink(t *testing.T) {
	d, path, canary := inner(t)
	if err := errors.Join(os.Symlink(canary, filepath.Join(path, "link")), os.WriteFile(filepath.Join(path, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.SetMode("link", 0o777); err == nil {
		t.Error("SetMode() of a link succeeds")
	}
	if err := d.SetMode("file", 0o751); err != nil {
		t.Error(err)
	}
	if info, err := d.Lstat("file"); err != nil || info.Mode != 0o751 {
		t.Errorf("mode of the file = %v, %v", info.Mode, err)
	}
	if os.Geteuid() == 0 {
		if err := d.SetOwner("link", 80001, 80002); err != nil {
			t.Error(err)
		}
		if info, err := d.Lstat("link"); err != nil || info.UID != 80001 || info.GID != 80002 {
			t.Errorf("owner of the link = %d:%d, %v", info.UID, info.GID, err)
		}
	}
	info, err := os.Stat(canary)
	if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		t.Errorf("the target of the link has mode %v and owner %d, %v", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, err)
	}
	if target, err := d.ReadLink("link"); target != canary || err != nil {
		t.Errorf("ReadLink() = %q, %v", target, err)
	}
	if target, err := d.ReadLink("file"); err == nil {
		t.Errorf("ReadLink() of a file = %q", target)
	}
	for _, name := range []string{"..", "a/b", ""} {
		_, lerr := d.Lstat(name)
		_, rerr := d.ReadLink(name)
		_, cerr := d.Create(name, 0o600)
		for call, err := range map[string]error{"Lstat": lerr, "ReadLink": rerr, "Create": cerr, "SetMode": d.SetMode(name, 0),
			"SetOwner": d.SetOwner(name, 0, 0), "Move": d.Move(name, d, "x")} {
			if !errors.Is(err, safefs.ErrEscape) {
				t.Errorf("%s(%q) = %v, want ErrEscape", call, name, err)
			}
		}
	}
}

func TestMove(t *testing.T) {
	d, path, canary := inner(t)
	if err := errors.Join(os.Mkdir(filepath.Join(path, "to"), 0o755), os.WriteFile(filepath.Join(path, "file"), []byte("new"), 0o600),
		os.Symlink(canary, filepath.Join(path, "to/link")), os.MkdirAll(filepath.Join(path, "to/dir/full"), 0o755)); err != nil {
		t.Fatal(err)
	}
	to, err := d.Sub("to")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := d.Move("file", to, "dir"); err == nil {
		t.Error("Move() of a file over a directory succeeds")
	}
	if err := d.Move("file", to, "link"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(path, "to/link")); string(b) != "new" {
		t.Errorf("moved file has %q, %v", b, err)
	}
	if b, err := os.ReadFile(canary); string(b) != "host" {
		t.Errorf("the target of the replaced link has %q, %v", b, err)
	}
	if err := d.Move("to", to, "../x"); !errors.Is(err, safefs.ErrEscape) {
		t.Errorf("Move() out of the directory = %v", err)
	}
}

func TestTemp(t *testing.T) {
	d, path, _ := inner(t)
	a, name, err := d.Temp(".t-", 0o711)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if info, err := os.Lstat(filepath.Join(path, name)); err != nil || info.Mode() != fs.ModeDir|0o711 || !strings.HasPrefix(name, ".t-") {
		t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
	}
	b, other, err := d.Temp(".t-", 0o700)
	if err != nil || other == name {
		t.Fatalf("second Temp() = %q, %v", other, err)
	}
	b.Close()
	if _, _, err := d.Temp("../", 0o700); !errors.Is(err, safefs.ErrEscape) {
		t.Errorf("Temp(../) = %v", err)
	}
}

func TestCopy(t *testing.T) {
	d, _, _ := inner(t)
	from, err := d.Create("from", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	want := strings.Repeat("text", 100_000)
	if _, err := from.WriteString(want); err != nil { // leaves the position at the end
		t.Fatal(err)
	}
	to, err := d.Create("to", 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := safefs.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if b, err := d.ReadFile("to", 1<<20); err != nil || string(b) != want {
		t.Errorf("the copy has %d bytes, %v", len(b), err)
	}
	info, err := d.Lstat("to")
	if err != nil || info.Links != 1 || info.Mode != 0o640 {
		t.Errorf("copy: %+v, %v", info, err)
	}
	if f, err := d.Create("to", 0o600); !errors.Is(err, fs.ErrExist) {
		f.Close()
		t.Errorf("Create() of an existing file = %v", err)
	}
	to.Close()
	if err := safefs.Copy(to, from); !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.EBADF) {
		t.Errorf("Copy() to a closed file = %v", err)
	}
}
