package nomad

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
)

// DecodeSparse reads what EncodeSparse wrote into the pointer v, to something empty. It is
// Decode for what our own servers write most, entries of the log and requests: each
// server decodes all of them. What it does not expect it leaves to Decode.
func DecodeSparse(b []byte, v any) error {
	to := reflect.ValueOf(v).Elem()
	if in := (sparseReader{b}); in.value(to, encodesItself(to.Type())) {
		return nil
	}
	to.SetZero()
	return Decode(b, v)
}

// firstItems is for how many items of a list or map there is room at first. Whoever says
// how many there are may be lying about what they are, and an item of one byte would be
// room for a struct of some hundred.
const firstItems = 16

// sparseReader holds what is still to be read. Its methods say whether they could read
// what was there; the value that they were given is spoiled otherwise.
type sparseReader struct{ b []byte }

// value reads one value into v, which is zero. Own says that only the codec knows its
// type (encodesItself).
func (in *sparseReader) value(v reflect.Value, own bool) bool {
	switch {
	case len(in.b) == 0:
		return false
	case own:
		return in.byCodec(v)
	case in.b[0] == 0xc0: // nil
		in.b = in.b[1:]
		return true
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := v.Type().Elem()
		v.Set(reflect.New(elem))
		return in.value(v.Elem(), encodesItself(elem))
	case reflect.Struct:
		return in.structure(v)
	case reflect.Slice:
		return in.slice(v)
	case reflect.Map:
		return in.mapping(v)
	}
	return in.scalar(v)
}

// byCodec leaves a value to the codec.
func (in *sparseReader) byCodec(v reflect.Value) bool {
	n, err := decodeSome(in.b, v.Addr().Interface())
	in.b = in.b[min(n, len(in.b)):]
	return err == nil
}

// structure reads fields in the order in which they are written.
func (in *sparseReader) structure(v reflect.Value) bool {
	n, ok := in.length(0x80, 0xde)
	fields := sparseFields(v.Type())
	for ; ok && n > 0; n-- {
		for len(fields) > 0 && !bytes.HasPrefix(in.b, fields[0].key) {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			return false
		}
		in.b = in.b[len(fields[0].key):]
		ok = in.value(v.FieldByIndex(fields[0].index), fields[0].own)
		fields = fields[1:]
	}
	return ok
}

func (in *sparseReader) slice(v reflect.Value) bool {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		raw, ok := in.raw()
		if ok {
			v.SetBytes(append([]byte{}, raw...))
		}
		return ok
	}
	n, ok := in.length(0x90, 0xdc)
	if !ok {
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), min(n, firstItems), min(n, firstItems)))
	own := encodesItself(v.Type().Elem())
	for i := 0; ok && i < n; i++ {
		if i == v.Len() {
			v.Grow(1)
			v.SetLen(min(v.Cap(), n))
		}
		ok = in.value(v.Index(i), own)
	}
	return ok
}

func (in *sparseReader) mapping(v reflect.Value) bool {
	n, ok := in.length(0x80, 0xde)
	if !ok {
		return false
	}
	t := v.Type()
	v.Set(reflect.MakeMapWithSize(t, min(n, firstItems)))
	for ; ok && n > 0; n-- {
		k, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if ok = in.value(k, encodesItself(t.Key())) && in.value(elem, encodesItself(t.Elem())); ok {
			v.SetMapIndex(k, elem)
		}
	}
	return ok
}

// scalar reads text, a number or a truth value.
func (in *sparseReader) scalar(v reflect.Value) bool {
	c := in.b[0]
	switch {
	case v.Kind() == reflect.String:
		raw, ok := in.raw()
		if ok {
			v.SetString(string(raw))
		}
		return ok
	case v.Kind() == reflect.Bool && (c == 0xc2 || c == 0xc3):
		v.SetBool(c == 0xc3)
		in.b = in.b[1:]
		return true
	case v.Kind() == reflect.Float64 && c == 0xcb && len(in.b) > 8:
		v.SetFloat(math.Float64frombits(binary.BigEndian.Uint64(in.b[1:])))
		in.b = in.b[9:]
		return true
	case v.CanInt():
		n, negative, ok := in.number()
		if ok = ok && (negative || n <= math.MaxInt64) && !v.OverflowInt(int64(n)); ok {
			v.SetInt(int64(n))
		}
		return ok
	case v.CanUint():
		n, negative, ok := in.number()
		if ok = ok && !negative && !v.OverflowUint(n); ok {
			v.SetUint(n)
		}
		return ok
	}
	return false
}

// number reads a whole number; n is one in two's complement when it is negative.
func (in *sparseReader) number() (n uint64, negative, ok bool) {
	c := in.b[0]
	if c <= 0x7f || c >= 0xe0 {
		in.b = in.b[1:]
		return uint64(int8(c)), c >= 0xe0, true
	}
	if c < 0xcc || c > 0xd3 {
		return 0, false, false
	}
	size := 1 << (c & 3) // cc to cf, and d0 to d3 for those with a sign: 1, 2, 4, 8 bytes
	if len(in.b) <= size {
		return 0, false, false
	}
	for _, b := range in.b[1 : 1+size] {
		n = n<<8 | uint64(b)
	}
	in.b = in.b[1+size:]
	if shift := 64 - 8*size; c >= 0xd0 {
		n = uint64(int64(n<<shift) >> shift)
		negative = int64(n) < 0
	}
	return n, negative, true
}

// raw reads text or bytes.
func (in *sparseReader) raw() ([]byte, bool) {
	n := 0
	switch c := in.b[0]; {
	case c >= 0xa0 && c <= 0xbf:
		n = int(c & 0x1f)
		in.b = in.b[1:]
	case c == 0xda && len(in.b) > 2:
		n = int(binary.BigEndian.Uint16(in.b[1:]))
		in.b = in.b[3:]
	default:
		return nil, false
	}
	if n > len(in.b) {
		return nil, false
	}
	raw := in.b[:n]
	in.b = in.b[n:]
	return raw, true
}

// length reads how many items a list or map has: none has more than bytes follow.
func (in *sparseReader) length(short, long byte) (int, bool) {
	n := 0
	switch {
	case len(in.b) > 0 && in.b[0]&0xf0 == short:
		n = int(in.b[0] & 0x0f)
		in.b = in.b[1:]
	case len(in.b) > 2 && in.b[0] == long:
		n = int(binary.BigEndian.Uint16(in.b[1:]))
		in.b = in.b[3:]
	default:
		return 0, false
	}
	return n, n <= len(in.b)
}
