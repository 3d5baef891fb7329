package api_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	officialPath = "github.com/hashicorp/nomad/api"
	oursPath     = "github.com/open-nomad/open-nomad/api"
)

// exports returns the files of export data by package: of both SDKs and all that they import.
var exports = sync.OnceValues(func() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", officialPath, officialPath+"/contexts",
		oursPath)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, &execError{err, stderr.String()}
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return files, nil
})

type execError struct {
	err    error
	stderr string
}

func (e *execError) Error() string { return e.err.Error() + "\n" + e.stderr }

func sdkImporter(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	files, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// TestSDK_SwapImport compiles programs for the official SDK, then with our import path.
func TestSDK_SwapImport(t *testing.T) {
	programs, err := filepath.Glob("testdata/sdk/*.go")
	if err != nil || len(programs) < 5 {
		t.Fatalf("programs = %v, %v", programs, err)
	}
	for _, path := range []string{officialPath, oursPath} {
		fset := token.NewFileSet()
		conf := types.Config{Importer: sdkImporter(t, fset)}
		for _, program := range programs {
			t.Run(path+"/"+filepath.Base(program), func(t *testing.T) {
				source, err := os.ReadFile(program)
				if err != nil {
					t.Fatal(err)
				}
				swapped := bytes.ReplaceAll(source, []byte(`"`+officialPath), []byte(`"`+path))
				f, err := parser.ParseFile(fset, program, swapped, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conf.Check("main", fset, []*ast.File{f}, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestSDK_Names compares the exported names of both packages, with their types. Ours may have more.
func TestSDK_Names(t *testing.T) {
	theirs, ours := exportedNames(t, officialPath), exportedNames(t, oursPath)
	used := map[string]bool{}
	for name, want := range theirs {
		parent, _, isMember := strings.Cut(name, ".")
		if isMember && ours[parent] == "" {
			continue // the type is in the table
		}
		got := ours[name]
		if got == want {
			continue
		}
		keys := inTable(name)
		if len(keys) == 0 {
			t.Errorf("%s: official %s, ours %q", name, want, got)
		}
		for _, key := range keys {
			used[key] = true
		}
	}
	for key := range absent {
		if !used[key] {
			t.Errorf("%s is in the table of absent names, but does not differ", key)
		}
	}
}

// exportedNames returns the types of the exported objects, fields and methods of a package.
func exportedNames(t *testing.T, path string) map[string]string {
	t.Helper()
	pkg, err := sdkImporter(t, token.NewFileSet()).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.TypeName:
			out[name] = "type"
			addMembers(out, name, o.Type())
		case *types.Const:
			out[name] = "const " + o.Val().ExactString()
		default:
			out[name] = shape(o.Type())
		}
	}
	return out
}

// addMembers adds the exported fields and methods of a type.
func addMembers(out map[string]string, name string, typ types.Type) {
	if s, ok := typ.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				out[name+"."+f.Name()] = "field " + shape(f.Type())
			}
		}
	} else {
		out[name] += " " + shape(typ.Underlying())
	}
	methods := types.NewMethodSet(types.NewPointer(typ))
	for m := range methods.Methods() {
		if m.Obj().Exported() {
			out[name+"."+m.Obj().Name()] = shape(m.Type())
		}
	}
}

// shape is a type as text, without the names of parameters and packages.
func shape(t types.Type) string {
	s, ok := t.(*types.Signature)
	if !ok {
		return types.TypeString(t, func(p *types.Package) string {
			if p.Path() == officialPath || p.Path() == oursPath {
				return ""
			}
			return p.Name()
		})
	}
	var text strings.Builder
	for i, tuple := range []*types.Tuple{s.Params(), s.Results()} {
		text.WriteString([]string{"func (", ") ("}[i])
		for v := range tuple.Variables() {
			text.WriteString(shape(v.Type()) + ", ")
		}
	}
	if s.Variadic() {
		text.WriteString("...")
	}
	return text.String() + ")"
}
