// Package spec parses the specifications of namespaces and quotas, in HCL 1 or JSON. A
// Reader removes each key that the caller reads. Remaining keys are unknown. All faults are
// reported in one error.
package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl"
)

// Reader reads the keys of a specification and collects faults.
type Reader struct {
	what   string
	faults []error
}

// Parse parses a specification. what is its kind, for errors. Interpolations such as
// ${node.id} are left to the servers.
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

// Err returns all faults as one error, nil without faults.
func (r *Reader) Err() error { return errors.Join(r.faults...) }

// Rest adds a fault for each remaining key.
func (r *Reader) Rest(from map[string]any, prefix string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.Fault("unknown key %s%s", prefix, name)
	}
}

// Refuse adds a fault for each named key that this version does not support.
func (r *Reader) Refuse(from map[string]any, prefix string, names ...string) {
	for _, name := range names {
		if _, asked := from[name]; asked {
			r.Fault("%s%s: not part of this version", prefix, name)
			delete(from, name)
		}
	}
}

// Text reads a string.
func (r *Reader) Text(from map[string]any, name string) string {
	v, given := from[name]
	delete(from, name)
	text, ok := v.(string)
	if given && !ok {
		r.Fault("%s: expected a string", name)
	}
	return text
}

// Bool reads a boolean, false if it is missing.
func (r *Reader) Bool(from map[string]any, name string) bool {
	v, given := from[name]
	delete(from, name)
	b, ok := v.(bool)
	if given && !ok {
		r.Fault("%s: expected true or false", name)
	}
	return b
}

// Int reads an integer, nil if it is missing.
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
	r.Fault("%s: expected an integer", name)
	return nil
}

// Block reads the only block with a name, nil if it is missing.
func (r *Reader) Block(from map[string]any, name string) map[string]any {
	blocks := r.Blocks(from, name)
	if len(blocks) > 1 {
		r.Fault("%s: expected one block", name)
		return nil
	}
	if len(blocks) == 0 {
		return nil
	}
	return blocks[0]
}

// Blocks reads the blocks with a name.
func (r *Reader) Blocks(from map[string]any, name string) []map[string]any {
	v, given := from[name]
	delete(from, name)
	blocks, ok := v.([]map[string]any)
	if given && !ok {
		r.Fault("%s: expected one block", name)
	}
	return blocks
}

// Texts reads a block of strings.
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

// List reads a list of strings: nil if it is missing, which differs from an empty list.
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
		r.Fault("%s: expected a list of strings", name)
	}
	return out
}
