package taskrunner

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDrawing compares the drawing in the package doc with the table: both must have the same
// phases and moves.
func TestDrawing(t *testing.T) {
	src, err := os.ReadFile("machine.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(src), "package taskrunner\n")
	drawn := map[string]bool{}
	for _, line := range strings.Split(doc, "\n") {
		if strings.ContainsAny(line, "─│▶▲▼") {
			for _, word := range regexp.MustCompile(`[A-Za-z]+`).FindAllString(line, -1) {
				drawn[word] = true
			}
		}
	}
	delete(drawn, "gate")
	known := map[string]bool{}
	for e, to := range moves {
		for _, word := range []string{string(e.from), string(e.move), string(to)} {
			known[word] = true
			if !drawn[word] {
				t.Errorf("%q is in the table and not in the drawing", word)
			}
		}
	}
	for word := range drawn {
		if !known[word] {
			t.Errorf("%q is in the drawing and not in the table", word)
		}
	}
}

func TestNext(t *testing.T) {
	if got, err := Next(Pending, Started); got != Running || err != nil {
		t.Errorf("Next(pending, Started) = %q, %v", got, err)
	}
	for _, move := range []Move{Started, StartFailed, Exit, Retry, Due, End, Kill} {
		if got, err := Next(Terminal, move); err == nil {
			t.Errorf("Next(terminal, %s) = %q, want an error: terminal is the end", move, got)
		}
	}
}
