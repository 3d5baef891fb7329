package docker

import (
	"strings"
	"testing"
)

// The daemon's output is compared with the end of what was copied, by lines.
func TestOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		had, copied string
		fresh       string
	}{
		"nothing copied":   {"a\nb\n", "", "a\nb\n"},
		"all copied":       {"a\nb\n", "x\na\nb\n", ""},
		"one line is new":  {"a\nb\nc\n", "x\na\nb\n", "c\n"},
		"part of a line":   {"a\nb", "a\nb", ""},
		"nothing there":    {"", "a\n", ""},
		"another output":   {"c\nd\n", "a\nb\n", "c\nd\n"},
		"no end of a line": {"abc", "ab", "abc"},
		"the longest":      {"t\nt\nt\n", strings.Repeat("t\n", 9), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.had[overlap([]byte(c.had), []byte(c.copied)):]; got != c.fresh {
				t.Errorf("new = %q, want %q", got, c.fresh)
			}
		})
	}
}
