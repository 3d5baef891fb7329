package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Regular expressions of package variables are those of internal/pattern: others are compiled at each start of the
// program, and were a fifth of the start of a command.
func TestPatternsAreLazy(t *testing.T) {
	for _, p := range parsePackages(t) {
		if strings.HasSuffix(p.name, "_test.go") || strings.HasPrefix(p.dir, "e2e") || strings.HasPrefix(p.dir, "packaging") ||
			strings.HasPrefix(p.dir, "internal/test") {
			continue
		}
		if n := compiledAtStart(p.file); n > 0 {
			t.Errorf("%s compiles %d regular expressions at the start of the program: use pattern.Lazy", p.name, n)
		}
	}
}

func TestCompiledAtStart(t *testing.T) {
	const source = `package x
import re "regexp"
var a = re.MustCompile("a")
var b = []x{{re.MustCompile("b")}}
var c = sync.OnceValue(func() *re.Regexp { return re.MustCompile("c") })
func d() { re.MustCompile("d") }`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := compiledAtStart(f); got != 2 {
		t.Errorf("compiledAtStart() = %d, want 2", got)
	}
}

// compiledAtStart returns the number of calls of regexp.MustCompile in a file that are not in functions.
func compiledAtStart(f *ast.File) (count int) {
	as := importName(f, "regexp")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == as && n.Sel.Name == "MustCompile" {
				count++
			}
		}
		return true
	})
	return count
}
