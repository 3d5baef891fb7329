package release

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestRelease builds a release for this machine's architecture twice, the second time from a copy of the
// tree. It takes some minutes without Go's cache.
func TestRelease(t *testing.T) {
	root := tree(t)
	first, second := t.TempDir(), t.TempDir()
	build(t, root, first, runtime.GOARCH)
	build(t, copied(t, root), second, runtime.GOARCH)
	files := listed(t, first)
	if got := listed(t, second); !slices.Equal(got, files) {
		t.Fatalf("the second release has %q, the first %q", got, files)
	}
	for _, name := range files {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		if two, err := os.ReadFile(filepath.Join(second, name)); err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs between two builds: %v", name, err)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = first
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != len(files)-1 {
		t.Errorf("SHA256SUMS of %d files: %v\n%s", len(files)-1, err, out)
	}
	program := filepath.Join(first, "nomad_linux_"+runtime.GOARCH)
	materials(t, program)
	contains(t, program, machines[runtime.GOARCH])
	for _, name := range []string{"LICENSE", "THIRD-PARTY-LICENSES", "container/Containerfile"} {
		if !slices.Contains(files, name) {
			t.Errorf("the release has no %s", name)
		}
	}
	for _, sidecar := range []string{"fetch", "render"} {
		if names := components(t, program+"."+sidecar+".cdx.json"); len(names) < 10 {
			t.Errorf("the SBOM of %s has the modules %q only", sidecar, names)
		}
	}
}

// tree returns the root of the tree, if releases shall be built.
func tree(t *testing.T) string {
	t.Helper()
	if os.Getenv("RELEASE") == "" {
		t.Skip("run make test-release; Go fetches the program that writes the SBOM")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func build(t *testing.T, root, out, arch string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "packaging/release/build"), out, arch)
	cmd.Env = append(os.Environ(), "COMMIT=0123456789abcdef", "VERSION=2.0.6+test", "SOURCE_DATE_EPOCH=1764000000", "COMPRESSION=gzip")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// copied copies the files that git knows to another directory, and those that make generates.
func copied(t *testing.T, root string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	script := `mkdir -p "$1" && cd "$0" && {
		git ls-files -z --cached --others --exclude-standard
		printf '%s\0' internal/companion/companion.bin internal/sidecar/*.bin.gz ui/bundle/bundle.js.gz
	} | xargs -0 cp --parents -t "$1"`
	if out, err := exec.Command("bash", "-c", script, root, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the tree: %v\n%s", err, out)
	}
	return to
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path) // below dir
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// materials checks that the SBOM of the program lists each module that is in it.
func materials(t *testing.T, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	names := components(t, program+".cdx.json")
	for _, library := range []string{"std@" + info.GoVersion, "preact@", "htm@", "@xterm/xterm@"} {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, library) }) {
			t.Errorf("the SBOM has no %s", library)
		}
	}
	for _, m := range info.Deps {
		if !slices.Contains(names, m.Path+"@"+m.Version) {
			t.Errorf("the SBOM has no %s@%s", m.Path, m.Version)
		}
	}
	if len(info.Deps) < 20 {
		t.Errorf("the program has %d modules", len(info.Deps))
	}
}

// components returns the modules of an SBOM.
func components(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("%s is not an SBOM of CycloneDX: %v", filepath.Base(name), err)
	}
	var names []string
	for _, c := range bom.Components {
		names = append(names, c.Name+"@"+c.Version)
	}
	return names
}
