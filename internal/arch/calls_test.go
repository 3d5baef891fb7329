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
var owned = []ownership{
	{"os/user", []string{"Lookup", "LookupId", "LookupGroup", "LookupGroupId"}, []string{"internal/hostuser"}},
	{"golang.org/x/sys/unix", []string{"Openat2", "OpenHow", "SYS_OPENAT2"}, []string{"internal/safefs"}},
	// Log entries that contain a job are made by the package that admits it. The others apply, count or announce them, or
	// are part of tests.
	{module + "/nomad", []string{"JobRegisterRequestType", "DeploymentStatusUpdateRequestType"},
		[]string{"nomad/admission", "nomad/fsm", "nomad/fsm/testlog", "nomad/stream", "nomad/server/servertest", "e2e/bench"}},
	{"golang.org/x/sys/unix", []string{"MemfdCreate", "SYS_MEMFD_CREATE"}, []string{"internal/memfd", "e2e/attack"}},
	// Parsers of text that callers may have written. Package untrusted has limits for it.
	{"regexp", []string{"Compile", "CompilePOSIX", "Match", "MatchString", "MatchReader"}, []string{"internal/untrusted", "e2e/bench"}},
	{"regexp", []string{"MustCompile"}, []string{"internal/pattern", "command/backup", "nomad/endpoint/allocs"}}, // of constants
	{module + "/internal/pattern", []string{"Lazy"}, []string{"client/fingerprint/cloud"}},                       // of constants
	{"github.com/hashicorp/go-bexpr", []string{"CreateEvaluator", "CreateFilter"}, []string{"internal/untrusted", "command/operator"}},
	{"github.com/hashicorp/go-bexpr/grammar", []string{"Parse", "ParseFile", "ParseReader"}, []string{"internal/untrusted"}},
	{"github.com/hashicorp/go-version", []string{"NewVersion", "NewSemver", "NewConstraint", "MustConstraints"},
		[]string{"internal/untrusted"}},
	{"github.com/hashicorp/cronexpr", []string{"Parse", "MustParse"}, []string{"internal/cron"}},
	{"time", []string{"LoadLocation"}, []string{"internal/cron", "drivers/testtask"}},
	{"github.com/hashicorp/go-sockaddr/template", []string{"Parse", "ParseIfAddrs", "ParseIfAddrsTemplate"}, []string{"command/agent/config"}},
	// HCL: jobspec runs in a process of its own, the others read files and answers of plugins.
	{"github.com/hashicorp/hcl", []string{"Decode", "DecodeObject", "Parse", "ParseBytes", "ParseString", "Unmarshal"},
		[]string{"command/spec", "command/variable"}},
	{"github.com/hashicorp/hcl/hcl/parser", []string{"Parse"}, []string{"command/agent/config/decode"}},
	{"github.com/hashicorp/hcl/v2/hclsyntax",
		[]string{"ParseConfig", "ParseExpression", "ParseTemplate", "ParseTraversalAbs", "LexConfig", "LexExpression", "LexTemplate"},
		[]string{"jobspec", "command/node", "plugins/hclspec"}},
	{"github.com/hashicorp/hcl/v2/hclwrite", []string{"ParseConfig", "Format"}, []string{"jobspec", "command/contextfile"}},
	{"github.com/hashicorp/hcl/v2/hclsimple", []string{"Decode", "DecodeFile"}, []string{"command/contextfile", "command/backup"}},
	{"github.com/hashicorp/hcl/v2/json", []string{"Parse", "ParseExpression", "ParseFile"}, []string{"plugins/schema", "plugins/drivers"}},
}

// ownership are names of a package, and the packages that may use them.
type ownership struct {
	pkg   string // import path
	names []string
	by    []string
}

// constant reports whether a call has only literals as arguments. The text of such a call is not a caller's.
func constant(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if b, ok := a.(*ast.BinaryExpr); ok {
			if _, ok := b.X.(*ast.BasicLit); ok {
				a = b.Y
			}
		}
		if lit, ok := a.(*ast.BasicLit); !ok || lit.Kind != token.STRING {
			return false
		}
	}
	return len(call.Args) > 0
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

// jobEntries are the types of log entries whose field Job registers a job.
var jobEntries = []string{"JobRegisterRequest", "DeploymentStatusUpdateRequest", "ApplyDeploymentAllocHealthRequest"}

// Only nomad/admission puts a job in a log entry. Clients send a JobRegisterRequest too.
func TestJobsInLogEntries(t *testing.T) {
	for _, p := range parsePackages(t) {
		if !strings.HasPrefix(p.dir, "nomad/") || strings.HasSuffix(p.name, "_test.go") ||
			slices.Contains([]string{"nomad/admission", "nomad/fsm/testlog", "nomad/server/servertest", "nomad/state/csitest"}, p.dir) {
			continue
		}
		ast.Inspect(p.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			sel, ok := lit.Type.(*ast.SelectorExpr)
			if !ok || !slices.Contains(jobEntries, sel.Sel.Name) {
				return true
			}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Job" {
						t.Errorf("%s makes a %s with a job: write it with nomad/admission", p.name, sel.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// testMethods are methods of nomad/server.Server that only tests and nomad/server/servertest use.
var testMethods = []string{"Apply", "ServerToken"}

func TestServerTestMethods(t *testing.T) {
	for _, p := range parsePackages(t) {
		if strings.HasSuffix(p.name, "_test.go") || p.dir == "nomad/server/servertest" {
			continue
		}
		for _, name := range usedTestMethods(p.dir, p.file) {
			t.Errorf("%s uses the method %s of the server, which is for tests", p.name, name)
		}
	}
}

func TestUsedTestMethods(t *testing.T) {
	const source = `package x
import "github.com/open-nomad/open-nomad/nomad/server"
func f(s *server.Server) { s.Apply(); s.raft.Apply(); s.ServerToken(); s.State() }`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := usedTestMethods("command/agent", f), []string{"Apply", "Apply", "ServerToken"}; !slices.Equal(got, want) {
		t.Errorf("usedTestMethods() = %q, want %q", got, want)
	}
	if got, want := usedTestMethods("nomad/server", f), []string{"Apply", "ServerToken"}; !slices.Equal(got, want) {
		t.Errorf("usedTestMethods() in the package of the server = %q, want %q", got, want)
	}
}

// usedTestMethods returns the names of testMethods that a file of the directory dir selects, if it can have a server. In
// the package of the server, they are methods of a variable: its Raft, a field, has an Apply too.
func usedTestMethods(dir string, f *ast.File) (out []string) {
	within := dir == "nomad/server"
	if !within && importName(f, module+"/nomad/server") == "" {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(testMethods, sel.Sel.Name) {
			return true
		}
		if _, variable := sel.X.(*ast.Ident); variable || !within {
			out = append(out, sel.Sel.Name)
		}
		return true
	})
	return out
}

func TestForeignCalls(t *testing.T) {
	const source = `package x
import sys "golang.org/x/sys/unix"
import "os"
import "regexp"
func f(s string) { sys.Openat2(0, "", nil); sys.Close(0); os.Openat2(); regexp.Compile("a"); regexp.Compile(s); g(regexp.MatchString) }`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	const owners = ", which belongs to internal/untrusted and e2e/bench"
	want := []string{"golang.org/x/sys/unix.Openat2, which belongs to internal/safefs", "regexp.Compile" + owners, "regexp.MatchString" +
		owners}
	if got := foreignCalls("client/logs", f); !slices.Equal(got, want) {
		t.Errorf("foreignCalls() = %q, want %q", got, want)
	}
	if got := foreignCalls("internal/safefs", f); !slices.Equal(got, want[1:]) {
		t.Errorf("foreignCalls() in an owner = %q, want %q", got, want[1:])
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
			if call, ok := n.(*ast.CallExpr); ok && constant(call) {
				return false
			}
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
