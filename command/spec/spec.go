// Package spec takes apart specifications in the first version of HCL, or in JSON: those
// of namespaces and quotas. What is in them and nobody took is a fault; all faults come in
// one error.
package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl"
)

// Reader takes what a command knows out of a specification, and collects faults.
type Reader struct {
	what   string
	faults []error
}

// Parse reads a text. What names the kind of the specification in errors. In it, what
// looks like an interpolation is a text for the servers.
func Parse(what string, text []byte) (*Reader, map[string]any, error) {
	root := map[string]any{}
	if err := hcl.Decode(&root, string(text)); err != nil {
		return nil, nil, fmt.Errorf("Error parsing the %s specification: %w", what, err)
	}
	return &Reader{what: what}, root, nil
}

// Fault adds a fault.
func (r *Reader) Fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%s specification: %w", title(r.what), fmt.Errorf(format, args...)))
}

func title(s string) string { return string(s[0]-'a'+'A') + s[1:] }

// Err is all faults, nil when there are none.
func (r *Reader) Err() error { return errors.Join(r.faults...) }

// Rest says what nobody took.
func (r *Reader) Rest(from map[string]any, prefix string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.Fault("no %s has %s%s", r.what, prefix, name)
	}
}

// Refuse takes what is known and not built.
func (r *Reader) Refuse(from map[string]any, prefix string, names ...string) {
	for _, name := range names {
		if _, asked := from[name]; asked {
			r.Fault("%s%s: not part of this version", prefix, name)
			delete(from, name)
		}
	}
}

// Text takes a string.
func (r *Reader) Text(from map[string]any, name string) string {
	v, given := from[name]
	delete(from, name)
	text, ok := v.(string)
	if given && !ok {
		r.Fault("%s: a string is expected", name)
	}
	return text
}

// Int takes a whole number, nil when it is not given.
func (r *Reader) Int(from map[string]any, name string) *int {
	v, given := from[name]
	delete(from, name)
	if !given {
		return nil
	}
	if n, ok := v.(int); ok {
		return &n
	}
	if f, ok := v.(float64); ok && f == float64(int(f)) {
		n := int(f)
		return &n
	}
	r.Fault("%s: a whole number is expected", name)
	return nil
}

// Block takes the one block of a name, nil when there is none.
func (r *Reader) Block(from map[string]any, name string) map[string]any {
	blocks := r.Blocks(from, name)
	if len(blocks) > 1 {
		r.Fault("%s: one block is expected", name)
		return nil
	}
	if len(blocks) == 0 {
		return nil
	}
	return blocks[0]
}

// Blocks takes the blocks of a name.
func (r *Reader) Blocks(from map[string]any, name string) []map[string]any {
	v, given := from[name]
	delete(from, name)
	blocks, ok := v.([]map[string]any)
	if given && !ok {
		r.Fault("%s: one block is expected", name)
	}
	return blocks
}

// Texts takes a block of strings.
func (r *Reader) Texts(from map[string]any, name string) map[string]string {
	block := r.Block(from, name)
	if block == nil {
		return nil
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(block)) {
		out[key] = r.Text(block, key)
	}
	return out
}

// List takes a list of strings, nil when it is not given: an empty one is not the same.
func (r *Reader) List(from map[string]any, name string) []string {
	v, given := from[name]
	delete(from, name)
	if !given {
		return nil
	}
	items, ok := v.([]any)
	out := []string{}
	for _, item := range items {
		text, isText := item.(string)
		ok = ok && isText
		out = append(out, text)
	}
	if !ok {
		r.Fault("%s: a list of strings is expected", name)
	}
	return out
}
