package sandbox

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// fill sets everything in v to distinct values that are not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(strings.Repeat("x", *n))
	case reflect.Int:
		v.SetInt(-int64(*n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1<<(v.Type().Bits()-1) + uint64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("a policy holds a " + v.Kind().String())
	}
}

// full returns a policy without a zero value.
func full() *Policy {
	p, n := new(Policy), 0
	fill(reflect.ValueOf(p).Elem(), &n)
	return p
}

func TestWireCarriesEveryField(t *testing.T) {
	for name, want := range map[string]*Policy{
		"full":   full(),
		"zero":   {},
		"shells": {Mounts: &Mounts{}, User: &User{}, Files: &Files{TCP: nil}},
	} {
		got, err := decode(want.encode())
		if err != nil {
			t.Errorf("%s: decode() = %v", name, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decode() = %#v, want %#v", name, got, want)
		}
	}
}

// TestWireRefuses checks that decode refuses every part of a policy.
func TestWireRefuses(t *testing.T) {
	encoded := full().encode()
	for n := range encoded {
		if _, err := decode(encoded[:n]); err == nil {
			t.Fatalf("decode() of the first %d of %d bytes = nil, want an error", n, len(encoded))
		}
	}
	zero := new(Policy).encode()
	if len(zero) < len(wireHeader)+10 {
		t.Fatalf("the zero policy has %d bytes", len(zero))
	}
	argv := len(wireHeader) // where the number of arguments is
	last := len(zero) - 1
	for name, edit := range map[string]func([]byte) []byte{
		"more":            func(b []byte) []byte { return append(b, 0) },
		"JSON":            func([]byte) []byte { return []byte(`{"Argv":["/bin/true"]}`) },
		"other version":   func(b []byte) []byte { b[argv-2]++; return b },
		"negative length": func(b []byte) []byte { b[argv] = 1; return b },
		"too long":        func(b []byte) []byte { b[last] = 2; return b },
		"endless number":  func(b []byte) []byte { return append(b[:argv], bytes.Repeat([]byte{0xff}, 20)...) },
		"group of 33 bits": func([]byte) []byte {
			b := (&Policy{User: &User{GID: 1<<32 - 1}}).encode()
			i := bytes.Index(b, []byte{0xfe, 0xff, 0xff, 0xff, 0x1f}) // twice that number, as a varint
			b[i+4] = 0x3f
			return b
		},
		"truth of two": func(b []byte) []byte { b[last-2] = 4; return b },
	} {
		if p, err := decode(edit(bytes.Clone(zero))); err == nil {
			t.Errorf("%s: decode() = %+v, want an error", name, p)
		}
	}
}

func FuzzWire(f *testing.F) {
	f.Add(full().encode())
	f.Add(new(Policy).encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decode(raw)
		if err != nil {
			return
		}
		again, err := decode(p.encode())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("decode() of what was decoded = %+v, %v, want %+v", again, err, p)
		}
	})
}
