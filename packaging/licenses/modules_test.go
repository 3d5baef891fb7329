package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// inTree makes the root of the tree the working directory.
func inTree(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

// built returns the modules of a program, compressed or not.
func built(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("run make build:", err)
	}
	if strings.HasSuffix(path, ".gz") {
		r, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(path, err)
	}
	var names []string
	for _, m := range info.Deps {
		names = append(names, m.Path+" "+m.Version)
	}
	return names
}

// TestModulesArePrograms compares the modules with those in the programs that make has built.
func TestModulesArePrograms(t *testing.T) {
	inTree(t)
	want := map[string]bool{"std " + runtime.Version(): true}
	for _, path := range []string{"bin/nomad", "internal/companion/companion.bin", "internal/sidecar/fetch.bin.gz",
		"internal/sidecar/render.bin.gz"} {
		for _, name := range built(t, path) {
			want[name] = true
		}
	}
	all, err := modules([]string{runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.name+" "+c.version)
	}
	slices.Sort(got)
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Errorf("modules() = %q,\nthe programs have %q", got, names)
	}
}

// mit is a text of a licence that is allowed.
const mit = `Copyright (c) 2026 Somebody
Permission is hereby granted, free of charge, to any person obtaining a copy of it.
The above copyright notice and this permission notice shall be included.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY.
`

func TestTerms(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the paths of the texts, or the error
	}{
		"allowed":    {map[string]string{"LICENSE": mit, "NOTICE": "n", "license.go": "package p"}, "LICENSE NOTICE"},
		"copied":     {map[string]string{"LICENSE": mit, "linked/COPYING": mit, "other/LICENSE": mit}, "LICENSE linked/COPYING"},
		"none":       {map[string]string{"README": mit}, "module example.com/m has no licence file"},
		"only below": {map[string]string{"linked/LICENSE": mit}, "module example.com/m has no licence file"},
		"unknown":    {map[string]string{"LICENSE": "All rights reserved."}, "module example.com/m: file LICENSE: the licence is unknown"},
		"forbidden": {map[string]string{"LICENSE": "Business Source License 1.1"},
			"module example.com/m: file LICENSE: the licence BUSL is not allowed"},
		"a second text": {map[string]string{"LICENSE": mit, "COPYING": "GNU  General\nPublic License"},
			"module example.com/m: file COPYING: the licence GPL is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, body := range c.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			linked := filepath.Join(dir, "linked")
			if err := os.MkdirAll(linked, 0o755); err != nil {
				t.Fatal(err)
			}
			all, err := terms("example.com/m", dir, map[string]bool{linked: true})
			if err != nil {
				if !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("terms() = %v, want %s", err, c.want)
				}
				return
			}
			var paths []string
			for _, x := range all {
				paths = append(paths, x.path)
			}
			if got := strings.Join(paths, " "); got != c.want {
				t.Errorf("terms() has the texts %q, want %q", got, c.want)
			}
		})
	}
}
