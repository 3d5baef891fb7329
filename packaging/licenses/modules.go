package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// component is a library in a program.
type component struct {
	name    string // a module of Go, or a package of npm
	version string
	files   string // where the tree would have it: Debian's files of a component
	npm     bool
	texts   []text
	scripts []script
}

// text is a file of a library that states its terms.
type text struct {
	path     string // in the library
	body     string
	licences []string // identifiers of SPDX, none for a notice
}

// programs are the main packages of a release with the tags of their build: see packaging/release/build.
var programs = []struct{ tags, path string }{
	{"companion", "."},
	{"", "./internal/companion/cmd"},
	{"disable_grpc_modules", "./internal/fetch/cmd"},
	{"disable_grpc_modules", "./internal/render/cmd"},
}

// linked is a package of a program, as go list prints it.
type linked struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// modules returns the library of Go and the modules of the programs, in the order of their names.
func modules(architectures []string) ([]component, error) {
	dirs := map[string]map[string]bool{} // the directories of packages by module directory
	found := map[string]component{}
	for _, arch := range architectures {
		for _, p := range programs {
			list, err := packages(arch, p.tags, p.path)
			if err != nil {
				return nil, err
			}
			for _, pkg := range list {
				if pkg.Standard || pkg.Module.Main {
					continue
				}
				m := pkg.Module
				if m.Replace != nil {
					return nil, fmt.Errorf("module %s is replaced by %s: a release is built of published modules", m.Path, m.Replace.Path)
				}
				found[m.Dir] = component{name: m.Path, version: m.Version, files: "vendor/" + m.Path + "/*"}
				if dirs[m.Dir] == nil {
					dirs[m.Dir] = map[string]bool{}
				}
				dirs[m.Dir][pkg.Dir] = true
			}
		}
	}
	std, err := standard()
	if err != nil {
		return nil, err
	}
	all := []component{std}
	for dir, c := range found {
		if c.texts, err = terms(c.name, dir, dirs[dir]); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// goCommand returns the Go command of the build: GO in the environment, or go.
func goCommand() string { return cmp.Or(os.Getenv("GO"), "go") }

// packages lists the packages of a program for an architecture.
func packages(arch, tags, path string) ([]linked, error) {
	cmd := exec.Command(goCommand(), "list", "-deps", "-tags="+tags, "-json=Dir,Standard,Module", path)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("list the packages of %s for %s: %w: %s", path, arch, err, problem.String())
	}
	var list []linked
	for dec := json.NewDecoder(&out); ; {
		var p linked
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("list the packages of %s for %s: %w", path, arch, err)
		}
		list = append(list, p)
	}
}

// standard returns the library and the runtime of Go, which are in every program.
func standard() (component, error) {
	out, err := exec.Command(goCommand(), "env", "GOROOT").Output()
	if err != nil {
		return component{}, fmt.Errorf("find the directory of Go: %w", err)
	}
	c := component{name: "std", version: runtime.Version(), files: "vendor/go/*"}
	c.texts, err = terms("std", strings.TrimSpace(string(out)), nil)
	return c, err
}

// terms reads the files that state the terms of a module: those in its directory, and in each directory
// from there to a package that is in a program.
func terms(name, root string, packages map[string]bool) ([]text, error) {
	dirs := map[string]bool{root: true}
	for dir := range packages {
		for ; len(dir) > len(root); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	var all []text
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("read module %s: %w", name, err)
		}
		for _, e := range entries {
			path, _ := filepath.Rel(root, filepath.Join(dir, e.Name())) // below root
			if kindOf(e.Name()) == 0 || !e.Type().IsRegular() || unlinked[name+"/"+path] {
				continue
			}
			t, err := read(name, root, path)
			if err != nil {
				return nil, fmt.Errorf("module %s: file %s: %w", name, path, err)
			}
			all = append(all, t)
		}
	}
	if !slices.ContainsFunc(all, func(t text) bool { return t.licences != nil && !strings.Contains(t.path, "/") }) {
		return nil, fmt.Errorf("module %s has no licence file: it may not be shipped", name)
	}
	return all, nil
}

// read reads a text of a module.
func read(name, root, path string) (text, error) {
	body, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return text{}, err
	}
	t := text{path: path, body: string(body), licences: chosen[name+"/"+path]}
	if t.licences == nil && kindOf(filepath.Base(path)) == licence {
		t.licences, err = recognise(t.body)
	}
	return t, err
}
