package arch_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// folders is the graph of the top-level folders: folder → folder → one import that needs the edge.
type folders map[string]map[string]string

// folder returns the top-level folder of a package of the module, "." for its root.
func folder(importPath string) string {
	top, _, _ := strings.Cut(local(importPath), "/")
	return top
}

// foldersOf returns the graph of packages without their tests.
func foldersOf(all []pkg) folders {
	out := folders{}
	for _, p := range all {
		from := folder(p.ImportPath)
		for _, imp := range p.Imports {
			if !inModule(imp) || folder(imp) == from {
				continue
			}
			if out[from] == nil {
				out[from] = map[string]string{}
			}
			out[from][folder(imp)] = local(p.ImportPath) + " imports " + local(imp)
		}
	}
	return out
}

// reach returns the folders that from imports, directly or not.
func (f folders) reach(from string) map[string]bool {
	seen := map[string]bool{}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for to := range f[next[0]] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

// cycles returns one import for each edge that is part of a cycle.
func (f folders) cycles() (out []string) {
	for _, from := range slices.Sorted(maps.Keys(f)) {
		for _, to := range slices.Sorted(maps.Keys(f[from])) {
			if f.reach(to)[from] {
				out = append(out, f[from][to])
			}
		}
	}
	return out
}

// TestFoldersHaveNoCycles checks that top-level folders do not import each other in a cycle.
func TestFoldersHaveNoCycles(t *testing.T) {
	for _, edge := range foldersOf(listPackages(t)).cycles() {
		t.Errorf("%s: the top-level folders import each other in a cycle", edge)
	}
}

func TestCycles(t *testing.T) {
	in := func(names ...string) (out []string) {
		for _, name := range names {
			out = append(out, module+"/"+name)
		}
		return out
	}
	all := []pkg{
		{ImportPath: module + "/a/x", Imports: in("b", "a/y")},
		{ImportPath: module + "/b", Imports: in("c/x")},
		{ImportPath: module + "/c/x", Imports: append(in("d"), "fmt")},
		{ImportPath: module + "/c/y", Imports: in("a/y")},
		{ImportPath: module + "/d", TestImports: in("a/x")},
	}
	want := []string{"a/x imports b", "b imports c/x", "c/y imports a/y"}
	if got := foldersOf(all).cycles(); !slices.Equal(got, want) {
		t.Errorf("cycles() = %q, want %q", got, want)
	}
}
