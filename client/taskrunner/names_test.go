package taskrunner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The loops never refer to a hook by its name.
func TestNoHookByName(t *testing.T) {
	names := map[string]bool{}
	for _, h := range newHouse(t, nil).runner(nil, nil).hooks.Hooks {
		if names[h.Name()] {
			t.Errorf("two hooks are named %s: they would share their state", h.Name())
		}
		names[h.Name()] = true
	}
	for _, dir := range []string{".", "../allocrunner", "../hook"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("files of %s: %v, %v", dir, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && names[text] {
						t.Errorf("%s names the hook %s", file, text)
					}
				}
				return true
			})
		}
	}
}
