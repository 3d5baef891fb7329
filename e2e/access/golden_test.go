package access

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata again")

// matrix holds the answers, by row and column.
type matrix struct {
	rows    []string
	note    map[string]string // what a row requests
	columns []string
	cells   map[[2]string]string
}

func newMatrix(callers []caller) *matrix {
	m := &matrix{note: map[string]string{}, cells: map[[2]string]string{}}
	for _, c := range callers {
		m.columns = append(m.columns, c.name)
	}
	return m
}

func (m *matrix) row(name, note string) {
	m.rows = append(m.rows, name)
	m.note[name] = note
}

func (m *matrix) set(row, column, cell string) { m.cells[[2]string{row, column}] = cell }

// String returns the table, with the columns numbered and listed above.
func (m *matrix) String() string {
	var b strings.Builder
	b.WriteString("# What each caller is answered, as an HTTP status. \".\" is 403. What management asks for is\n" +
		"# done, or fails for its own reasons: yes. \"tls\" is a caller that TLS does not let in.\n")
	for i, c := range m.columns {
		fmt.Fprintf(&b, "# %2d %s\n", i+1, c)
	}
	width := 0
	for _, r := range m.rows {
		width = max(width, len(r))
	}
	fmt.Fprintf(&b, "#%*s", width-1, "")
	for i := range m.columns {
		fmt.Fprintf(&b, " %3d", i+1)
	}
	b.WriteString("\n")
	slices.Sort(m.rows)
	for _, r := range m.rows {
		fmt.Fprintf(&b, "%-*s", width, r)
		for _, c := range m.columns {
			cell := m.cells[[2]string{r, c}]
			if cell == "403" {
				cell = "."
			}
			fmt.Fprintf(&b, " %3s", cell)
		}
		b.WriteString("  " + m.note[r] + "\n")
	}
	return b.String()
}

// compare compares the table with the file.
func (m *matrix) compare(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	got := m.String()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for _, line := range strings.Split(got, "\n") {
		if !slices.Contains(want, line) {
			t.Errorf("not in %s (if it is right: go test -tags companion ./e2e/access -run TestMatrix -update):\n%s", file, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(strings.Split(got, "\n"), line) {
			t.Errorf("only in %s:\n%s", file, line)
		}
	}
}

// faults are the methods and routes that answer a request for an object that does not exist with 500 and this text, as those of
// Nomad 2.0. Another error with status 500 is a bug.
var faults = map[string]string{
	"CSIVolume.ListExternal": "no such plugin", "CSIVolume.ListSnapshots": "no such plugin",
	"GET /v1/volumes/external": "no such plugin", "GET /v1/volumes/snapshot": "no such plugin",
	"DELETE /v1/volume/csi/:id": "volume not found", "DELETE /v1/volume/csi/:id/delete": "volume not found",
	"DELETE /v1/volume/csi/:id/detach": "no such volume", "DELETE /v1/volumes/snapshot": "no such plugin",
}

// sane checks the properties that hold independent of the file.
func (m *matrix) sane(t *testing.T, public map[string]bool) {
	t.Helper()
	for _, r := range m.rows {
		for _, c := range m.columns {
			switch cell := m.cells[[2]string{r, c}]; {
			case c == management && cell != "403":
				m.set(r, c, "yes")
			case cell == "":
				t.Errorf("%s was not called as %s", r, c)
			case cell == "500" && faults[r] == "":
				t.Errorf("%s as %s: an internal error", r, c)
			case never(c) && strings.HasPrefix(cell, "2") && !public[r]:
				t.Errorf("%s as %s: %s, want a refusal", r, c, cell)
			}
		}
	}
}
