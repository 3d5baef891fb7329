package drivers

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// Fields reads the attributes of a decoded config object. An absent or null attribute reads as its
// zero value. The first attribute of a wrong type or out of range is returned by Err, so that a
// driver checks once at the end.
type Fields struct {
	Value cty.Value
	err   error
}

// Err returns the first error of the reads so far.
func (f *Fields) Err() error { return f.err }

// Has reports whether the attribute was given.
func (f *Fields) Has(name string) bool {
	_, ok := f.value(name)
	return ok
}

// String reads a string.
func (f *Fields) String(name string) string {
	v, ok := f.typed(name, cty.String)
	if !ok {
		return ""
	}
	return v.AsString()
}

// Bool reads a bool.
func (f *Fields) Bool(name string) bool {
	v, ok := f.typed(name, cty.Bool)
	return ok && v.True()
}

// Int reads an integer.
func (f *Fields) Int(name string) int64 {
	v, ok := f.typed(name, cty.Number)
	if !ok {
		return 0
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact {
		f.Fail(name, errors.New("is not an integer"))
		return 0
	}
	return n
}

// Ints reads a list of integers.
func (f *Fields) Ints(name string) (out []int64) {
	for _, e := range f.list(name, cty.Number, "numbers") {
		n, acc := e.AsBigFloat().Int64()
		if acc != big.Exact {
			f.Fail(name, fmt.Errorf("%s is not an integer", e.AsBigFloat()))
			return nil
		}
		out = append(out, n)
	}
	return out
}

// Duration reads a string such as "10s".
func (f *Fields) Duration(name string) time.Duration {
	s := f.String(name)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		f.Fail(name, fmt.Errorf("%q is not a duration", s))
		return 0
	}
	return d
}

// Strings reads a list of strings.
func (f *Fields) Strings(name string) (out []string) {
	for _, e := range f.list(name, cty.String, "strings") {
		out = append(out, e.AsString())
	}
	return out
}

// list reads the elements of a list of type of; what is the name of the type.
func (f *Fields) list(name string, of cty.Type, what string) (out []cty.Value) {
	v, ok := f.value(name)
	if !ok {
		return nil
	}
	if !v.CanIterateElements() {
		f.Fail(name, errors.New("is not a list"))
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || e.Type() != of {
			f.Fail(name, errors.New("is not a list of "+what))
			return nil
		}
		out = append(out, e)
	}
	return out
}

// Map reads a map of strings.
func (f *Fields) Map(name string) map[string]string {
	v, ok := f.value(name)
	if !ok {
		return nil
	}
	return f.stringMap(name, v)
}

// Maps reads a list of maps of strings, as repeated blocks give it, merged in order.
func (f *Fields) Maps(name string) map[string]string {
	v, ok := f.value(name)
	if !ok {
		return nil
	}
	if !v.CanIterateElements() {
		f.Fail(name, errors.New("is not a list of maps"))
		return nil
	}
	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		for k, s := range f.stringMap(name, e) {
			out[k] = s
		}
	}
	return out
}

func (f *Fields) stringMap(name string, v cty.Value) map[string]string {
	if v.IsNull() || !v.CanIterateElements() || (!v.Type().IsMapType() && !v.Type().IsObjectType()) {
		f.Fail(name, errors.New("is not a map of strings"))
		return nil
	}
	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() || e.Type() != cty.String {
			f.Fail(name, errors.New("is not a map of strings"))
			return nil
		}
		out[k.AsString()] = e.AsString()
	}
	return out
}

func (f *Fields) typed(name string, t cty.Type) (cty.Value, bool) {
	v, ok := f.value(name)
	if ok && v.Type() != t {
		f.Fail(name, fmt.Errorf("is a %s, want a %s", v.Type().FriendlyName(), t.FriendlyName()))
		return cty.NilVal, false
	}
	return v, ok
}

func (f *Fields) value(name string) (cty.Value, bool) {
	if f.Value == cty.NilVal || f.Value.IsNull() || !f.Value.Type().IsObjectType() || !f.Value.Type().HasAttribute(name) {
		return cty.NilVal, false
	}
	v := f.Value.GetAttr(name)
	if v.IsNull() {
		return cty.NilVal, false
	}
	if !v.IsWhollyKnown() {
		f.Fail(name, errors.New("is not known yet"))
		return cty.NilVal, false
	}
	return v, true
}

// Fail records an error about an attribute, unless there was one before.
func (f *Fields) Fail(name string, err error) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", name, err)
	}
}
