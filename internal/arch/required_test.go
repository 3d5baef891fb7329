package arch_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A package of a module that go.mod requires only for others compiles, and may be a copy of the wanted one: metrics of
// github.com/armon/go-metrics are not those of github.com/hashicorp/go-metrics.
func TestImportsAreRequired(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{} // by module: false is one that only other modules need
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(line, "\t") && strings.HasPrefix(f[1], "v") {
			direct[f[0]] = !strings.HasSuffix(strings.TrimSpace(line), "// indirect")
		}
	}
	if len(direct) < 50 {
		t.Fatalf("go.mod has %d requirements: they are not read", len(direct))
	}
	for _, p := range listPackages(t) {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			m := imported
			for m != "" {
				if isDirect, ok := direct[m]; ok {
					if !isDirect {
						t.Errorf("%s imports %s, which go.mod requires as indirect: import another package, or run go mod tidy", p.ImportPath, imported)
					}
					break
				}
				m = m[:max(strings.LastIndex(m, "/"), 0)]
			}
		}
	}
}
