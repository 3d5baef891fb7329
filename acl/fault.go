package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// maxFaults is how many faults of a text are told.
const maxFaults = 20

// maxShown is how much of a word of the text a message repeats.
const maxShown = 64

// Pos is a place in the text of a policy. Both count from 1; columns are bytes.
type Pos struct {
	Line   int
	Column int
}

// String returns the place as messages give it.
func (p Pos) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// Fault is one thing that is wrong with a policy.
type Fault struct {
	Pos     Pos
	Message string
}

// Error lists what is wrong with the text of a policy, in the order of the text.
type Error struct {
	Faults []Fault
}

// Error returns a line for each fault: where, what, and what was expected.
func (e *Error) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i == maxFaults {
			fmt.Fprintf(&b, "\nand %d more", len(e.Faults)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s", f.Pos, f.Message)
	}
	return b.String()
}

// faults gathers what is wrong.
type faults []Fault

func (f *faults) add(at Pos, format string, args ...any) {
	*f = append(*f, Fault{at, fmt.Sprintf(format, args...)})
}

// err returns what was gathered, nil when that is nothing.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Column - b.Pos.Column
	})
	return &Error{Faults: f}
}

// shown quotes a word of the text.
func shown(word string) string {
	if len(word) > maxShown {
		return fmt.Sprintf("%q...", word[:maxShown])
	}
	return fmt.Sprintf("%q", word)
}

// meant suggests the word that is written most alike, or lists all when there are few.
// Past the faults that are told it suggests nothing.
func (f faults) meant(word string, all []string) string {
	if len(f) >= maxFaults {
		return ""
	}
	if len(word) <= maxShown {
		best, least := "", 4
		for _, w := range all {
			n := levenshtein.Distance(strings.ToLower(word), w, nil)
			if n < least && n <= len(w)/2 {
				best, least = w, n
			}
		}
		if best != "" {
			return fmt.Sprintf("; did you mean %q?", best)
		}
	}
	if len(all) > 10 {
		return ""
	}
	return "; it takes " + strings.Join(all, ", ")
}
