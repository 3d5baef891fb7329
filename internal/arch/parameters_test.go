package arch_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// manyParameters are the functions with more than four parameters whose signature an interface has: that of a library, or
// the caller of RPC methods that most packages declare.
var manyParameters = []string{
	"nomad/consensus/snapfiles.go Create", "nomad/consensus/snapshot.go Create", "nomad/csicall/caller.go Node", "nomad/rpc/conn.go NodeCall",
	"nomad/rpc/pool.go Call", "nomad/server/peers.go AsServer", "nomad/server/peers.go Call",
}

// More than four parameters become a struct. The SDK has the signatures of Nomad's, and the harness of tests names what a
// test checks.
func TestParameters(t *testing.T) {
	var found []string
	for _, p := range parsePackages(t) {
		if strings.HasSuffix(p.name, "_test.go") || strings.HasSuffix(p.name, ".pb.go") || p.dir == "api" ||
			strings.HasPrefix(p.dir, "e2e/") {
			continue
		}
		ast.Inspect(p.file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if ok && f.Type.Params.NumFields() > 4 {
				found = append(found, p.name+" "+f.Name.Name)
			}
			return !ok
		})
	}
	for _, name := range found {
		if !slices.Contains(manyParameters, name) {
			t.Errorf("%s has more than four parameters: use a struct", name)
		}
	}
	for _, name := range manyParameters {
		if !slices.Contains(found, name) {
			t.Errorf("%s is in the list, but has at most four parameters or does not exist", name)
		}
	}
}
