package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/open-nomad/open-nomad"

// pkg holds the used fields of `go list -json`.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// bans are packages that a package must not import, directly or indirectly.
var bans = []struct{ from, to string }{
	{"client/...", "nomad/state/..."},
	{"client/...", "nomad/server"},
	{"nomad/...", "client/..."},
	{"nomad/...", "command/..."},
	{"nomad/...", "drivers/..."},
	{"drivers/...", "client/..."},
	{"drivers/...", "nomad/..."},
	{"api/...", "nomad/..."},
	{"plugins/drivers", "nomad/..."},
	{"jobspec", "nomad/..."},
	{"command/agent/httpapi", "nomad/server"},
	{"command/agent/httpapi", "client/..."},
	{"command/agent/consulapi", "nomad/server"},
	{"command/agent/consulapi", "client/..."},
	{"command/agent/consulapi", "command/agent/httpapi"},
	// The agent must not link the libraries of its sidecar programs.
	{"client/...", "internal/fetch/getter"},
	{"client/...", "internal/render/engine"},
	{"command/...", "internal/fetch/getter"},
	{"command/...", "internal/render/engine"},
}

func TestImportsPointDown(t *testing.T) {
	layers := readLayers(t)
	used := map[string]bool{}
	for _, p := range listPackages(t) {
		from, pattern := layers.of(local(p.ImportPath))
		if pattern == "" {
			t.Errorf("%s belongs to no layer of layers.txt", local(p.ImportPath))
			continue
		}
		used[pattern] = true
		for _, imp := range p.Imports {
			if !inModule(imp) {
				continue
			}
			if to, pattern := layers.of(local(imp)); pattern != "" && to > from {
				t.Errorf("%s (layer %s) imports %s (layer %s)", local(p.ImportPath), layers.names[from], local(imp), layers.names[to])
			}
		}
	}
	for pattern := range layers.patterns {
		if !used[pattern] {
			t.Errorf("layers.txt: %q matches no package, or a longer pattern matches each of its packages", pattern)
		}
	}
}

func TestBans(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, ban := range bans {
			if !matches(ban.from, local(p.ImportPath)) {
				continue
			}
			for _, dep := range p.Deps {
				if inModule(dep) && matches(ban.to, local(dep)) {
					t.Errorf("%s reaches %s: %s may not reach %s", local(p.ImportPath), local(dep), ban.from, ban.to)
				}
			}
		}
	}
}

func TestNothingOfTheOriginal(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imp := range append(append(p.Imports, p.TestImports...), p.XTestImports...) {
			if imp == "github.com/hashicorp/nomad" || strings.HasPrefix(imp, "github.com/hashicorp/nomad/") &&
				imp != "github.com/hashicorp/nomad/api" {
				t.Errorf("%s imports %s", local(p.ImportPath), imp)
			}
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/hashicorp/nomad/") && !templates(local(p.ImportPath)) && local(p.ImportPath) != "e2e/harness" {
				t.Errorf("%s reaches %s outside of tests", local(p.ImportPath), dep)
			}
		}
	}
}

// templates reports whether a package contains the template engine, whose library imports the SDK:
// the program of its own, and nomad itself when it is built without embedded programs.
func templates(pkg string) bool { return matches("internal/render/...", pkg) || pkg == "." }

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"client/...", "client", true},
		{"client/...", "client/state", true},
		{"client/...", "clientele", false},
		{"nomad/state", "nomad/state", true},
		{"nomad/state", "nomad/stateful", false},
		{"api", "api", true},
		{"api", "api/x", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestLayers_Of(t *testing.T) {
	l := layers{[]string{"low", "high"}, map[string]int{"a/...": 1, "a/b": 0, "a/c/...": 0, "a/d...": 0, ".": 1}}
	for name, want := range map[string]string{"a": "high", "a/b": "low", "a/b/x": "high", "a/c/x": "low", "a/d": "low", "a/dx": "low",
		"a/x": "high", ".": "high", "b": ""} {
		layer, pattern := l.of(name)
		if got := l.names[layer]; (pattern == "") != (want == "") || want != "" && got != want {
			t.Errorf("of(%q) = %s by %q, want %s", name, got, pattern, want)
		}
	}
}

// layers are those of layers.txt.
type layers struct {
	names    []string       // lowest first
	patterns map[string]int // of packages → index of the layer
}

// of returns the layer of a package and the longest pattern that matches it, "" if none does.
func (l layers) of(name string) (layer int, longest string) {
	for pattern, i := range l.patterns {
		if covers(pattern, name) && (longest == "" || weight(pattern) > weight(longest)) {
			layer, longest = i, pattern
		}
	}
	return layer, longest
}

// weight orders patterns that match the same package. Its name counts most.
func weight(pattern string) int {
	if base, ok := strings.CutSuffix(pattern, "..."); ok {
		return len(base)
	}
	return math.MaxInt
}

// covers is matches with one more form: "a/b..." covers every package whose name begins with a/b.
func covers(pattern, name string) bool {
	base, ok := strings.CutSuffix(pattern, "...")
	return matches(pattern, name) || ok && !strings.HasSuffix(base, "/") && strings.HasPrefix(name, base)
}

// readLayers reads layers.txt.
func readLayers(t *testing.T) layers {
	t.Helper()
	text, err := os.ReadFile("../../layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := layers{patterns: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if name, rest, ok := strings.Cut(line, ":"); ok {
			out.names, line = append(out.names, name), rest
		}
		for _, pattern := range strings.Fields(line) {
			if _, twice := out.patterns[pattern]; twice || len(out.names) == 0 {
				t.Fatalf("layers.txt: %s is listed twice, or before the first layer", pattern)
			}
			out.patterns[pattern] = len(out.names) - 1
		}
	}
	return out
}

// listPackages returns the packages of the module.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list names no package")
	}
	return all
}

func inModule(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// local returns the name of a package inside the module, "." for its root.
func local(importPath string) string {
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"))
}

// matches reports whether a pattern with or without "/..." covers a package.
func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return name == pattern
}
