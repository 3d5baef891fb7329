package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written writes the files of a release, and returns the components and the files.
func written(t *testing.T) (all []component, texts, debian string) {
	t.Helper()
	dir := t.TempDir()
	if err := run("write", []string{dir}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	modules, err := modules(architectures)
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := webLibraries(".")
	if err != nil {
		t.Fatal(err)
	}
	return append(modules, libraries...), read("THIRD-PARTY-LICENSES"), read("copyright")
}

// TestTexts reads licences of some libraries, and checks that the file has the texts of all.
func TestTexts(t *testing.T) {
	inTree(t)
	all, text, _ := written(t)
	want := map[string]string{"std": "BSD-3-Clause", "github.com/hashicorp/raft": "MPL-2.0", "google.golang.org/grpc": "Apache-2.0",
		"github.com/mitchellh/go-wordwrap": "MIT", "go.yaml.in/yaml/v3": "Apache-2.0, MIT",
		"preact": "MIT", "htm": "Apache-2.0", "@xterm/xterm": "MIT", "axe-core": ""}
	got := map[string]string{}
	for _, c := range all {
		got[c.name] = strings.Join(c.licences(), ", ")
		if !strings.Contains(text, "\n"+c.name+" "+c.version+": "+got[c.name]+"\n") {
			t.Errorf("the table has no row of %s %s with %s", c.name, c.version, got[c.name])
		}
		for _, x := range c.texts {
			if !strings.Contains(text, strings.TrimSpace(strings.ReplaceAll(x.body, "\r\n", "\n"))) {
				t.Errorf("%s %s: the file has not the text of %s", c.name, c.version, x.path)
			}
		}
	}
	for name, id := range want {
		if got[name] != id {
			t.Errorf("%s has the licence %q, want %q", name, got[name], id)
		}
	}
	if _, again, _ := written(t); again != text {
		t.Error("two runs differ")
	}
}

// TestCopyright reads the paragraphs of Debian's file: each component has one, with the licences that have
// a paragraph of their own.
func TestCopyright(t *testing.T) {
	inTree(t)
	all, _, text := written(t)
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	if !strings.HasPrefix(paragraphs[0], "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n") {
		t.Errorf("the head is %q", paragraphs[0])
	}
	standalone, files := map[string]bool{}, map[string][]string{}
	for _, p := range paragraphs[1:] {
		fields := map[string]string{}
		var last string
		for line := range strings.Lines(p) {
			if name, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				last = name
				fields[last] = value
			} else if strings.HasPrefix(line, " ") && last != "" {
				fields[last] += line
			} else {
				t.Fatalf("line %q is not of a field:\n%s", line, p)
			}
		}
		licence, _, _ := strings.Cut(fields["License"], "\n")
		if fields["Files"] == "" {
			standalone[licence] = true
			continue
		}
		if fields["Copyright"] == "" || licence == "" {
			t.Errorf("a paragraph has no holder or no licence:\n%s", p)
		}
		files[strings.TrimSpace(fields["Comment"])] = strings.Split(licence, " and ")
	}
	for _, c := range all {
		list, ok := files[c.name+" "+c.version]
		if !ok {
			t.Errorf("%s %s has no paragraph", c.name, c.version)
		}
		for _, licence := range list {
			if !standalone[licence] {
				t.Errorf("%s: the licence %q has no paragraph", c.name, licence)
			}
		}
	}
}
