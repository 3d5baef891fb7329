package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// maxFaults is the maximum number of faults in an error text.
const maxFaults = 20

// maxShown is the maximum number of bytes of a quoted word in a message.
const maxShown = 64

// Pos is a position in the text of a policy. Line and column start at 1. Columns are bytes.
type Pos struct {
	Line   int
	Column int
}

// String returns the position as "line 1, column 2".
func (p Pos) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// Fault is one error in the text of a policy.
type Fault struct {
	Pos     Pos
	Message string
}

// Error lists the faults of a policy, in the order of the text.
type Error struct {
	Faults []Fault
}

// Error returns a line for each fault, with the position and the problem.
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

// faults collects faults.
type faults []Fault

func (f *faults) add(at Pos, format string, args ...any) {
	*f = append(*f, Fault{at, fmt.Sprintf(format, args...)})
}

// err returns an *Error with the sorted faults, or nil if there are none.
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

// shown quotes a word of the text and truncates it to maxShown.
func shown(word string) string {
	if len(word) > maxShown {
		return fmt.Sprintf("%q...", word[:maxShown])
	}
	return fmt.Sprintf("%q", word)
}

// meant suggests the valid word with the most similar spelling, or lists all words if they
// are few. It returns "" after maxFaults faults, which are not printed.
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
	return "; want " + strings.Join(all, ", ")
}
