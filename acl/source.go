package acl

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on the size and the nesting of a policy.
const (
	maxText  = 512 << 10
	maxDepth = 12
)

// item is a key or a block of a policy in HCL or JSON. In JSON, labels are nested keys.
type item struct {
	key    string
	at     Pos
	labels []label
	value  value
}

type label struct {
	text string
	at   Pos
}

// shape is the type of a value, for messages.
type shape string

const (
	object shape = "a block"
	list   shape = "a list"
	text   shape = "a string"
	other  shape = "a number, true, false or null"
)

// value is the value of a key.
type value struct {
	shape shape
	at    Pos
	text  string
	items []item
	list  []value
}

// read parses a text and reports whether it is JSON.
func read(src string) ([]item, bool, error) {
	var found faults
	lines := newLines(src)
	switch {
	case len(src) > maxText:
		found.add(Pos{1, 1}, "the policy has %d KiB, at most %d are allowed", (len(src)+1023)>>10, maxText>>10)
	case !utf8.ValidString(src):
		found.add(lines.pos(invalidAt(src)), "the text is not UTF-8")
	case strings.ContainsAny(src, "\x00\ufeff\ue123"):
		found.add(lines.pos(strings.IndexAny(src, "\x00\ufeff\ue123")), "forbidden character: NUL, byte order mark or U+E123")
	case strings.TrimSpace(src) == "":
		found.add(Pos{1, 1}, "the policy is empty: it requires at least one block, such as %s", example)
	}
	if err := found.err(); err != nil {
		return nil, false, err
	}
	if strings.HasPrefix(strings.TrimLeft(src, " \t\r\n"), "{") {
		items, err := readJSON(src, lines)
		return items, true, err
	}
	items, err := readHCL(src, lines)
	return items, false, err
}

const example = `namespace "default" { policy = "read" }`

// invalidAt returns the offset of the first invalid UTF-8 byte.
func invalidAt(src string) int {
	for i, r := range src {
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], "\ufffd") {
			return i
		}
	}
	return 0
}

// lines contains the offsets of the lines of a text.
type lines []int

func newLines(src string) lines {
	starts := lines{0}
	for i := range len(src) {
		if src[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func (l lines) pos(offset int) Pos {
	line, exact := slices.BinarySearch(l, offset)
	if !exact {
		line--
	}
	return Pos{Line: line + 1, Column: offset - l[line] + 1}
}
