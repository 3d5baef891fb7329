package arch_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
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
	// The agent must not link the libraries of its sidecar programs.
	{"client/...", "internal/fetch/getter"},
	{"client/...", "internal/render/engine"},
	{"command/...", "internal/fetch/getter"},
	{"command/...", "internal/render/engine"},
}

func TestImportsPointDown(t *testing.T) {
	floors := readFloors(t)
	for _, p := range listPackages(t) {
		from := local(p.ImportPath)
		floor, listed := floors[from]
		if !listed {
			t.Errorf("%s is missing from floors.txt", from)
			continue
		}
		for _, imp := range p.Imports {
			if !inModule(imp) {
				continue
			}
			to := local(imp)
			if below, ok := floors[to]; ok && below >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", from, floor, to, below)
			}
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
			if imp == "github.com/hashicorp/nomad" || strings.HasPrefix(imp, "github.com/hashicorp/nomad/") && imp != "github.com/hashicorp/nomad/api" {
				t.Errorf("%s imports %s", local(p.ImportPath), imp)
			}
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/hashicorp/nomad/") && !templates(local(p.ImportPath)) {
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

// readFloors returns the floor of each package of floors.txt.
func readFloors(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open("../../floors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	floors := map[string]int{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		line, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		floor, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 2 {
			t.Fatalf("floors.txt: %q is not a floor and a package", in.Text())
		}
		if _, twice := floors[fields[1]]; twice {
			t.Errorf("floors.txt: %s is listed twice", fields[1])
		}
		floors[fields[1]] = floor
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return floors
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
