package arch_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxMapLines keeps the map a page that is read at once.
const maxMapLines = 200

// place is a package, a file or a directory of the map, perhaps with a function, a type or a method of the package.
var place = regexp.MustCompile(`(?:^|[^\w./-])((?:acl|api|client|cmd|command|demo|drivers|e2e|internal|jobspec|nomad|packaging|plugins|ui|website)(?:/[\w-]+)*(?:\.[A-Za-z]\w*)*)`)

// readMap returns ARCHITECTURE.md.
func readMap(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every package, file, function and method of the map exists.
func TestMap(t *testing.T) {
	text := readMap(t)
	if n := strings.Count(text, "\n"); n > maxMapLines {
		t.Errorf("ARCHITECTURE.md has %d lines, at most %d", n, maxMapLines)
	}
	declared, found := declarations(t), 0
	for i, line := range strings.Split(text, "\n") {
		for _, m := range place.FindAllStringSubmatch(line, -1) {
			found++
			if !exists(declared, m[1]) {
				t.Errorf("ARCHITECTURE.md:%d: %s does not exist", i+1, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("ARCHITECTURE.md names %d places, want at least 100: the test does not recognise them", found)
	}
}

// exists reports whether a place of the map exists.
func exists(declared map[string]bool, name string) bool {
	if declared[name] {
		return true
	}
	_, err := os.Stat(filepath.Join("../..", name))
	return err == nil
}

// declarations returns the packages of the module with their types, functions and methods: "nomad/plan",
// "nomad/plan.Applier" and "nomad/plan.Applier.Submit".
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range parsePackages(t) {
		if strings.HasSuffix(p.name, "_test.go") {
			continue
		}
		out[p.dir] = true
		for _, d := range p.file.Decls {
			for _, name := range namesOf(d) {
				out[p.dir+"."+name] = true
			}
		}
	}
	return out
}

// namesOf returns the types, functions and methods of a declaration.
func namesOf(d ast.Decl) (out []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiver(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				out = append(out, s.Name.Name)
			}
		}
	}
	return out
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// The drawing of the map has the layers of layers.txt, from the top, and each of its packages in the right one.
func TestMapLayers(t *testing.T) {
	_, rest, _ := strings.Cut(readMap(t), "```layers\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no block with the language layers")
	}
	all, at := readLayers(t), ""
	var names []string
	for line := range strings.Lines(block) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, " ") {
			at, fields = fields[0], fields[1:]
			names = append(names, at)
		}
		for _, name := range fields {
			if i, pattern := all.of(strings.TrimSuffix(name, "/...")); pattern == "" || all.names[i] != at {
				t.Errorf("ARCHITECTURE.md has %s in the layer %s, layers.txt in %s", name, at, all.names[i])
			}
		}
	}
	slices.Reverse(names)
	if !slices.Equal(names, all.names) {
		t.Errorf("ARCHITECTURE.md has the layers %q from below, layers.txt %q", names, all.names)
	}
}
