package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// owned are names of other packages that only the listed packages may use, apart from tests.
var owned = []struct {
	pkg   string // import path
	names []string
	by    []string
}{
	{"os/user", []string{"Lookup", "LookupId", "LookupGroup", "LookupGroupId"}, []string{"internal/hostuser"}},
	{"golang.org/x/sys/unix", []string{"Openat2", "OpenHow", "SYS_OPENAT2"}, []string{"internal/safefs"}},
	{"golang.org/x/sys/unix", []string{"MemfdCreate", "SYS_MEMFD_CREATE"}, []string{"internal/memfd", "e2e/attack"}},
}

func TestOwnedCalls(t *testing.T) {
	for _, p := range parsePackages(t) {
		if strings.HasSuffix(p.name, "_test.go") {
			continue
		}
		for _, bad := range foreignCalls(p.dir, p.file) {
			t.Errorf("%s uses %s", p.name, bad)
		}
	}
}

func TestForeignCalls(t *testing.T) {
	const source = `package x
import sys "golang.org/x/sys/unix"
import "os"
func f() { sys.Openat2(0, "", nil); sys.Close(0); os.Openat2() }`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"golang.org/x/sys/unix.Openat2, which belongs to internal/safefs"}
	if got := foreignCalls("client/logs", f); !slices.Equal(got, want) {
		t.Errorf("foreignCalls() = %q, want %q", got, want)
	}
	if got := foreignCalls("internal/safefs", f); len(got) > 0 {
		t.Errorf("foreignCalls() in the owner = %q, want none", got)
	}
}

// foreignCalls returns the owned names that a file of the directory dir uses without a right to.
func foreignCalls(dir string, f *ast.File) (out []string) {
	for _, o := range owned {
		if slices.Contains(o.by, dir) {
			continue
		}
		as := importName(f, o.pkg)
		if as == "" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == as && slices.Contains(o.names, sel.Sel.Name) {
				out = append(out, o.pkg+"."+sel.Sel.Name+", which belongs to "+strings.Join(o.by, " and "))
			}
			return true
		})
	}
	return out
}

// importName returns the name of an imported package in a file, or "".
func importName(f *ast.File, pkg string) string {
	for _, imp := range f.Imports {
		if name, err := strconv.Unquote(imp.Path.Value); err != nil || name != pkg {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

// parsed is a Go file of the repository.
type parsed struct {
	name, dir string // relative to the repository
	file      *ast.File
}

// parsePackages parses the Go files of the repository, with any build tag.
func parsePackages(t *testing.T) (out []parsed) {
	t.Helper()
	const root = "../.."
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		out = append(out, parsed{name: rel, dir: filepath.ToSlash(filepath.Dir(rel)), file: f})
		return err
	})
	if err != nil {
		t.Fatalf("parse the repository: %v", err)
	}
	return out
}
