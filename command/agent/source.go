package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// place is where something was said: in a file, or, without a line, by a flag.
type place struct {
	file         string
	line, column int
}

// kind is what sort of value a file has at a place.
type kind string

const (
	scalar kind = "a single value"
	array  kind = "a list"
	object kind = "a block"
	null   kind = "null"
)

// value is what a file says, alike for HCL and JSON. A block with labels is a block
// in a block: plugin "x" { } is plugin { x { } }.
type value struct {
	at      place
	kind    kind
	text    string  // of a scalar, without its quotes
	bare    bool    // a scalar without quotes: a number, true or false
	list    []value // of an array
	entries []entry // of an object, in the order of the file; keys may come again
}

// entry is one key of an object.
type entry struct {
	key   string
	at    place
	value value
}

// blocks returns the objects of a value: itself, or all of a list. JSON has both
// forms, and in HCL meta = { } and meta { } are the same.
func (v value) blocks() ([]value, error) {
	switch {
	case v.kind == object:
		return []value{v}, nil
	case v.kind != array:
		return nil, fmt.Errorf("a block is expected, not %s", v.kind)
	}
	for _, e := range v.list {
		if e.kind != object {
			return nil, fmt.Errorf("a block is expected, not %s", e.kind)
		}
	}
	return v.list, nil
}

// strings returns a list of strings; a single one is a list of one.
func (v value) strings() ([]string, error) {
	if v.kind == scalar {
		return []string{v.text}, nil
	}
	if v.kind != array {
		return nil, fmt.Errorf("a list of strings is expected, not %s", v.kind)
	}
	out := []string{}
	for _, e := range v.list {
		if e.kind != scalar {
			return nil, fmt.Errorf("a list of strings is expected, not one with %s in it", e.kind)
		}
		out = append(out, e.text)
	}
	return out, nil
}

// plain makes ordinary Go values of what the keys of a driver's configuration hold;
// the driver's specification converts them. The same block several times is a list.
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

// fault is something wrong at a place of a file.
type fault struct {
	at   place
	text string
}

// faults makes one error of all that is wrong in a file: place, what it is, and the
// line itself up to its value, which may be a secret.
func faults(all []fault, src []byte) error {
	lines := strings.Split(string(src), "\n")
	var errs []error
	for _, f := range all {
		text := fmt.Sprintf("%s:%d,%d: %s", f.at.file, f.at.line, f.at.column, f.text)
		if n := f.at.line; n > 0 && n <= len(lines) {
			if line := shown(lines[n-1]); line != "" {
				text += "\n    " + line
			}
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// shown returns a line of a file up to the first value in it. Of a line that holds
// no key nothing is shown: it may go on with a value.
func shown(line string) string {
	line = strings.TrimSpace(line)
	at := strings.IndexAny(line, "=:{")
	if at < 0 {
		return ""
	}
	if line[at] == '{' && at > 0 {
		return line[:at+1]
	}
	if at == 0 { // a whole JSON file may be one line
		return ""
	}
	return line[:at+1] + " ..."
}
