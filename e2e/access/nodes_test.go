package access

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// nodesPage is the page that lists what the credential of a node allows, in the section nodesSection.
const (
	nodesPage    = "../../website/content/docs/security-model.md"
	nodesSection = "\n## Credential of a node\n"
)

// ofNodes returns the rows that a node's credential reaches beyond a caller with the same connection and no token, and
// the methods that only nodes may call. Features that do not exist are left out.
func (m *matrix) ofNodes(base string) []string {
	found := map[string]bool{}
	for _, method := range endpoint.New(endpoint.Config{}).Methods() {
		if slices.Contains(m.rows, method.Name) && (method.Rule == rpc.NodeOnly || method.Rule == rpc.NodeStatus) {
			found[method.Name] = true
		}
	}
	for _, r := range m.rows {
		for _, node := range []string{"node", "node of another pool"} {
			if cell := m.cells[[2]string{r, node}]; cell != m.cells[[2]string{r, base}] && !slices.Contains([]string{"403", "tls", "501"}, cell) {
				found[r] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// nodeRow matches a row of a table of the page.
var nodeRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// checkNodesPage compares the rows with those of the page that have the same form: RPCs, or routes.
func (m *matrix) checkNodesPage(t *testing.T, base string) {
	t.Helper()
	text, err := os.ReadFile(nodesPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), nodesSection)
	if !ok {
		t.Fatalf("%s has no section %q", nodesPage, strings.TrimSpace(nodesSection))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	isRoute := func(name string) bool { return strings.Contains(name, " /") }
	listed := []string{}
	for _, match := range nodeRow.FindAllStringSubmatch(section, -1) {
		if isRoute(match[1]) == isRoute(m.rows[0]) {
			listed = append(listed, match[1])
		}
	}
	slices.Sort(listed)
	if got, want := fmt.Sprintf("%q", m.ofNodes(base)), fmt.Sprintf("%q", listed); got != want {
		t.Errorf("the credential of a node allows\n%s\nbut %s lists\n%s", got, nodesPage, want)
	}
}
