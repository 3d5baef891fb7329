package nomad_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestEndingOf_Table holds EndingOf against the table in its file.
func TestEndingOf_Table(t *testing.T) {
	raw, err := os.ReadFile("ending.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(raw), "//\tjob ")
	if !found {
		t.Fatal("ending.go has no table of jobs")
	}
	table, _, _ = strings.Cut(table, "//\n")
	statuses := []string{nomad.AllocClientStatusComplete, nomad.AllocClientStatusFailed, nomad.AllocClientStatusLost}
	rows := 0
	for line := range strings.SplitSeq(table, "\n") {
		cells := columns(strings.TrimPrefix(line, "//\t"))
		if len(cells) != 4 {
			continue
		}
		rows++
		for i, status := range statuses {
			if got := nomad.EndingOf(cells[0], status); string(got) != cells[i+1] {
				t.Errorf("EndingOf(%s, %s) = %q, want %q", cells[0], status, got, cells[i+1])
			}
		}
		for _, status := range []string{nomad.AllocClientStatusPending, nomad.AllocClientStatusRunning, nomad.AllocClientStatusUnknown} {
			if got := nomad.EndingOf(cells[0], status); got != nomad.EndNone {
				t.Errorf("EndingOf(%s, %s) = %q, want %q", cells[0], status, got, nomad.EndNone)
			}
		}
	}
	if rows != 4 {
		t.Errorf("the table has %d rows, want 4", rows)
	}
}

// columns splits a row whose cells are two or more spaces apart.
func columns(line string) []string {
	var out []string
	for cell := range strings.SplitSeq(line, "  ") {
		if cell = strings.TrimSpace(cell); cell != "" {
			out = append(out, cell)
		}
	}
	return out
}
