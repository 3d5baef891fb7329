package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The links of root on the way to a policy's paths are kept. The stage follows them to the targets
// of that time, and follows no other link of the same users.
func TestKeepLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(at("a/b"), 0o755), os.MkdirAll(at("c"), 0o755), os.Symlink("a", at("relative")),
		os.Symlink(at("relative/b"), at("absolute")), os.Symlink(at("a"), at("other")), os.Lchown(at("other"), 88123, 88123)); err != nil {
		t.Fatal(err)
	}
	p := &Policy{Dir: at("absolute"), Foreign: []string{at("other/b")}, Files: &Files{Paths: []Path{
		{Name: at("relative/nowhere")}, {Name: "b", Beneath: at("relative")}, {Name: "/proc/self/fd/0"},
	}}}
	p.KeepLinks()
	want := []Link{{at("absolute"), at("relative/b")}, {at("relative"), "a"}}
	if !slices.Equal(p.Links, want) {
		t.Fatalf("Links = %q, want %q", p.Links, want)
	}
	// In the user namespace no file is root's.
	for _, name := range []string{"absolute", "relative", "a", "c"} {
		if err := os.Lchown(at(name), 88123, 88123); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(at("relative")), os.Symlink("c", at("relative")), os.Lchown(at("relative"), 88123, 88123)); err != nil {
		t.Fatal(err)
	}
	lookup := &lookup{links: p.links()}
	f, err := lookup.open(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if real, err := f.path(); err != nil || real != at("a/b") {
		t.Errorf("%s leads to %s, %v, want %s", p.Dir, real, err, at("a/b"))
	}
	for name, want := range map[string]error{"relative/b": nil, "other": unix.ELOOP} {
		f, err := lookup.open(at(name))
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("open(%s) = %v, want %v", name, err, want)
		}
	}
}
