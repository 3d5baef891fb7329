package codec

import (
	"reflect"
	"sync"
	"time"
)

// Copy returns a deep copy of plain data: structs, pointers, slices, maps and
// scalars. A nil pointer, slice or map stays nil.
func Copy[T any](v T) T {
	src := reflect.ValueOf(&v).Elem()
	var out T
	copyInto(reflect.ValueOf(&out).Elem(), src)
	return out
}

var timeType = reflect.TypeFor[time.Time]()

// flatTypes caches which types an assignment copies completely.
var flatTypes sync.Map // reflect.Type → bool

// isFlat reports whether a copy by assignment shares no mutable data with the original.
func isFlat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return false
	case reflect.Array:
		return isFlat(t.Elem())
	case reflect.Struct:
	default:
		return true
	}
	if known, ok := flatTypes.Load(t); ok {
		return known.(bool)
	}
	flat := true
	for i := range t.NumField() {
		if f := t.Field(i); t != timeType && f.IsExported() && !isFlat(f.Type) {
			flat = false
		}
	}
	flatTypes.Store(t, flat)
	return flat
}

// deep caches the fields of structs that an assignment does not copy completely.
var deep sync.Map // reflect.Type → []int

// DeepFields returns the indexes of the exported fields of a struct that an assignment does not copy completely.
func DeepFields(t reflect.Type) []int {
	if known, ok := deep.Load(t); ok {
		return known.([]int)
	}
	var out []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !isFlat(f.Type) {
			out = append(out, i)
		}
	}
	deep.Store(t, out)
	return out
}

func copyInto(dst, src reflect.Value) {
	if isFlat(src.Type()) {
		dst.Set(src)
		return
	}
	switch src.Kind() {
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		p := reflect.New(src.Type().Elem())
		copyInto(p.Elem(), src.Elem())
		dst.Set(p)
	case reflect.Interface:
		if src.IsNil() {
			return
		}
		v := reflect.New(src.Elem().Type()).Elem()
		copyInto(v, src.Elem())
		dst.Set(v)
	case reflect.Struct:
		dst.Set(src)
		for _, i := range DeepFields(src.Type()) {
			copyInto(dst.Field(i), src.Field(i))
		}
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		s := reflect.MakeSlice(src.Type(), src.Len(), src.Len())
		if isFlat(src.Type().Elem()) {
			reflect.Copy(s, src)
			dst.Set(s)
			return
		}
		for i := range src.Len() {
			copyInto(s.Index(i), src.Index(i))
		}
		dst.Set(s)
	case reflect.Map:
		if src.IsNil() {
			return
		}
		m := reflect.MakeMapWithSize(src.Type(), src.Len())
		flat := isFlat(src.Type().Elem())
		for it := src.MapRange(); it.Next(); {
			if flat {
				m.SetMapIndex(it.Key(), it.Value())
				continue
			}
			v := reflect.New(src.Type().Elem()).Elem()
			copyInto(v, it.Value())
			m.SetMapIndex(it.Key(), v)
		}
		dst.Set(m)
	default:
		dst.Set(src)
	}
}
