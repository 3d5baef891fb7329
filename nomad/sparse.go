package nomad

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// EncodeSparse returns v as msgpack without the fields of structs that are zero: who
// decodes it into an empty value gets what Encode would give, from a fraction of the
// bytes. What is empty but not nil stays.
func EncodeSparse(v any) ([]byte, error) { return appendWhole(nil, v) }

// scratches are where values are encoded before their size is known.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// keptScratch bounds what goes back to the pool: a plan can have megabytes.
const keptScratch = 64 << 10

// appendWhole appends v, sparsely encoded, to a copy of head of just the right size.
func appendWhole(head []byte, v any) ([]byte, error) {
	scratch := scratches.Get().(*[]byte)
	value := reflect.ValueOf(v)
	b, err := appendSparse(append((*scratch)[:0], head...), value, value.IsValid() && encodesItself(value.Type()))
	out := bytes.Clone(b)
	if cap(b) <= keptScratch {
		*scratch = b
	}
	scratches.Put(scratch)
	return out, err
}

// appendSparse appends one value. Own says that only the codec knows its type
// (encodesItself).
func appendSparse(b []byte, v reflect.Value, own bool) ([]byte, error) {
	switch v.Kind() {
	case reflect.Invalid:
		return append(b, 0xc0), nil
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return append(b, 0xc0), nil
		}
	}
	if own {
		return appendByCodec(b, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return appendSparse(b, v.Elem(), encodesItself(v.Type().Elem()))
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Slice:
		return appendSlice(b, v)
	case reflect.Map:
		return appendMap(b, v)
	}
	return appendScalar(b, v)
}

// appendScalar appends text, a number or a truth value.
func appendScalar(b []byte, v reflect.Value) ([]byte, error) {
	switch {
	case v.Kind() == reflect.String:
		return append(appendRawLen(b, v.Len()), v.String()...), nil
	case v.Kind() == reflect.Bool && v.Bool():
		return append(b, 0xc3), nil
	case v.Kind() == reflect.Bool:
		return append(b, 0xc2), nil
	case v.CanInt():
		return appendInt(b, v.Int()), nil
	case v.CanUint() && v.Kind() != reflect.Uintptr:
		return appendUint(b, v.Uint()), nil
	case v.Kind() == reflect.Float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v.Float())), nil
	}
	return appendByCodec(b, v)
}

// appendByCodec leaves a value to the codec.
func appendByCodec(b []byte, v reflect.Value) ([]byte, error) {
	if v.Kind() != reflect.Pointer && v.CanAddr() {
		v = v.Addr()
	}
	text, err := Encode(v.Interface())
	return append(b, text...), err
}

// appendInt appends a number that may be negative, in the shortest form that says so.
func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(b, byte(n))
	case n == int64(int8(n)):
		return append(b, 0xd0, byte(n))
	case n == int64(int16(n)):
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n == int64(int32(n)):
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

// appendUint appends a number in the shortest form.
func appendUint(b []byte, n uint64) []byte {
	switch {
	case n <= 0x7f:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

// appendRawLen begins a run of n bytes. Text and bytes look alike, and the form of
// 8 bits is not used (compat/wire.md section 4).
func appendRawLen(b []byte, n int) []byte { return appendLen(b, n, 32, 0xa0, 0xda) }

// appendLen begins what has n items: in one byte below few, else in three or five.
func appendLen(b []byte, n, few int, short, long byte) []byte {
	switch {
	case n < few:
		return append(b, short|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, long+1), uint32(n))
}

func appendSlice(b []byte, v reflect.Value) ([]byte, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return append(appendRawLen(b, v.Len()), v.Bytes()...), nil
	}
	b = appendLen(b, v.Len(), 16, 0x90, 0xdc)
	var err error
	own := encodesItself(v.Type().Elem())
	for i := 0; i < v.Len() && err == nil; i++ {
		b, err = appendSparse(b, v.Index(i), own)
	}
	return b, err
}

func appendMap(b []byte, v reflect.Value) ([]byte, error) {
	b = appendLen(b, v.Len(), 16, 0x80, 0xde)
	ownKey, own := encodesItself(v.Type().Key()), encodesItself(v.Type().Elem())
	for it := v.MapRange(); it.Next(); {
		var err error
		if b, err = appendSparse(b, it.Key(), ownKey); err != nil {
			return b, err
		}
		if b, err = appendSparse(b, it.Value(), own); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendStruct appends the fields that are not zero. How many they are is written when
// it is known.
func appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	fields := sparseFields(v.Type())
	at, n := len(b), 0
	few := len(fields) < 16
	if b = append(b, 0x80); !few {
		b = append(b, 0, 0)
	}
	for i := range fields {
		f := &fields[i]
		value := v.FieldByIndex(f.index)
		if f.absent(value) {
			continue
		}
		var err error
		if b, err = appendSparse(append(b, f.key...), value, f.own); err != nil {
			return b, err
		}
		n++
	}
	if few {
		b[at] |= byte(n)
		return b, nil
	}
	b[at] = 0xde
	binary.BigEndian.PutUint16(b[at+1:], uint16(n))
	return b, nil
}

// sparseField is one field of a struct as it is encoded.
type sparseField struct {
	key       []byte // its encoded name
	index     []int
	omitEmpty bool
	own       bool // encodesItself, of its type
}

// absent says whether a field need not be written.
func (f *sparseField) absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.IsNil() || f.omitEmpty && v.Len() == 0
	case reflect.Struct, reflect.Array:
		return false
	}
	return v.IsZero()
}

// sparseTypes remembers the fields of structs, and which types encode themselves.
var sparseTypes, ownEncoders sync.Map

// sparseFields returns the fields of a struct; those of embedded ones are its own.
func sparseFields(t reflect.Type) []sparseField {
	if known, ok := sparseTypes.Load(t); ok {
		return known.([]sparseField)
	}
	var out []sparseField
	all, _ := t.FieldByName("_struct") // what its tag says holds for every field
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("codec"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out = append(out, sparseField{append(appendRawLen(nil, len(name)), name...), f.Index,
			strings.Contains(options+all.Tag.Get("codec"), "omitempty"), encodesItself(f.Type)})
	}
	sparseTypes.Store(t, out)
	return out
}

// encodesItself says whether only the codec knows how a type is encoded: it has a way of
// its own, or what it holds is of no certain type.
func encodesItself(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return false // what it points to is looked at
	}
	if known, ok := ownEncoders.Load(t); ok {
		return known.(bool)
	}
	own := t.Kind() == reflect.Interface || t.Kind() == reflect.Struct && !embedsPlainly(t)
	switch t.Kind() {
	case reflect.Slice:
		own = t.Elem().Kind() == reflect.Interface
	case reflect.Map: // the codec decodes each struct over the one before it
		elem := t.Elem().Kind()
		own = elem == reflect.Interface || elem == reflect.Struct || t.Key().Kind() == reflect.Struct
	}
	for _, way := range []reflect.Type{reflect.TypeFor[codec.Selfer](), reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[codec.MissingFielder]()} {
		own = own || t.Implements(way) || reflect.PointerTo(t).Implements(way)
	}
	ownEncoders.Store(t, own)
	return own
}

// embedsPlainly says whether what a struct embeds are structs, without a name of its own.
func embedsPlainly(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && (f.Type.Kind() != reflect.Struct || f.Tag.Get("codec") != "" || !embedsPlainly(f.Type)) {
			return false
		}
	}
	return true
}
