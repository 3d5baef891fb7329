package decode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Place is where a key was set: a position in a file, or a flag, which has line 0.
type Place struct {
	File         string
	Line, Column int
}

// kind is the kind of a value in a file.
type kind string

const (
	scalar kind = "a single value"
	array  kind = "a list"
	object kind = "a block"
	null   kind = "null"
)

// value is a value of an HCL or JSON file. A labeled block is a nested block: plugin "x" { } is
// plugin { x { } }.
type value struct {
	at      Place
	kind    kind
	text    string  // of a scalar, without quotes
	bare    bool    // a scalar without quotes: a number, true or false
	list    []value // of an array
	entries []entry // of an object, in the order of the file; keys may repeat
}

// entry is one key of an object.
type entry struct {
	key   string
	at    Place
	value value
}

// blocks returns the objects of a value: the value itself, or the elements of a list. JSON has
// both forms. In HCL, meta = { } and meta { } are the same.
func (v value) blocks() ([]value, error) {
	switch {
	case v.kind == object:
		return []value{v}, nil
	case v.kind != array:
		return nil, fmt.Errorf("expected a block, got %s", v.kind)
	}
	for _, e := range v.list {
		if e.kind != object {
			return nil, fmt.Errorf("expected a block, got %s", e.kind)
		}
	}
	return v.list, nil
}

// strings returns a list of strings. A scalar is a list of one.
func (v value) strings() ([]string, error) {
	if v.kind == scalar {
		return []string{v.text}, nil
	}
	if v.kind != array {
		return nil, fmt.Errorf("expected a list of strings, got %s", v.kind)
	}
	out := []string{}
	for _, e := range v.list {
		if e.kind != scalar {
			return nil, fmt.Errorf("expected a list of strings, got one that contains %s", e.kind)
		}
		out = append(out, e.text)
	}
	return out, nil
}

// plain converts the value to scalars, slices and maps. The config schema of a driver converts these
// further. A repeated block becomes a list.
func (v value) plain() any {
	switch v.kind {
	case scalar:
		return v.plainScalar()
	case array:
		list := make([]any, 0, len(v.list))
		for _, e := range v.list {
			list = append(list, e.plain())
		}
		return list
	case null:
		return nil
	}
	out := map[string]any{}
	for _, e := range v.entries {
		before, again := out[e.key]
		list, isList := before.([]any)
		switch {
		case !again || e.value.kind != object:
			out[e.key] = e.value.plain()
		case isList:
			out[e.key] = append(list, e.value.plain())
		default:
			out[e.key] = []any{before, e.value.plain()}
		}
	}
	return out
}

func (v value) plainScalar() any {
	if !v.bare {
		return v.text
	}
	if b, err := strconv.ParseBool(v.text); err == nil && len(v.text) > 1 {
		return b
	}
	if n, err := strconv.ParseInt(v.text, 0, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(v.text, 64); err == nil {
		return f
	}
	return v.text
}

// fault is an error at a place in a file.
type fault struct {
	at   Place
	text string
}

// faults joins the errors of a file. Each has its place, its text, and the line up to the value.
// The value is left out, because it may be a secret.
func faults(all []fault, src []byte) error {
	lines := strings.Split(string(src), "\n")
	var errs []error
	for _, f := range all {
		text := fmt.Sprintf("%s:%d,%d: %s", f.at.File, f.at.Line, f.at.Column, f.text)
		if n := f.at.Line; n > 0 && n <= len(lines) {
			if line := shown(lines[n-1]); line != "" {
				text += "\n    " + line
			}
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// shown returns a line up to its first value. It returns "" for a line without a key, because the
// line may continue a value.
func shown(line string) string {
	line = strings.TrimSpace(line)
	at := strings.IndexAny(line, "=:{")
	if at < 0 {
		return ""
	}
	if line[at] == '{' && at > 0 {
		return line[:at+1]
	}
	if at == 0 { // the line may be a complete JSON file
		return ""
	}
	return line[:at+1] + " ..."
}
