package codec

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// CheckNulls returns an error if an element of a list or a value of a map in the request is nil, as in "TaskGroups": [null].
// No valid request contains one, and every reader would have to check for it. A nil field is valid. A nil
// TaskLifecycleConfig in a map is also valid: it means a main task. So is a nil string in a map: it removes a key of a node's
// metadata. Values in interfaces are not checked.
func CheckNulls(request any) error {
	v := reflect.ValueOf(request)
	if !v.IsValid() || !mayLack(v.Type()) {
		return nil
	}
	if at := lacking(v); at != nil {
		return apierror.Errorf(400, "invalid request: %s is null", *at)
	}
	return nil
}

// lacking returns the location of the first nil element, or nil if there is none.
func lacking(v reflect.Value) *string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return lacking(v.Elem())
		}
	case reflect.Struct:
		for _, i := range DeepFields(v.Type()) {
			if !mayLack(v.Field(i).Type()) {
				continue
			}
			if at := lacking(v.Field(i)); at != nil {
				return place("%s.%s", v.Type().Field(i).Name, *at)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at := element(v.Index(i)); at != nil {
				return place("[%d]%s", i, *at)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if at := element(it.Value()); at != nil {
				return place("[%q]%s", fmt.Sprint(it.Key()), *at)
			}
		}
	}
	return nil
}

// element is like lacking, but also reports v itself if it is nil.
func element(v reflect.Value) *string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		if t := v.Type(); t == reflect.TypeFor[*nomad.TaskLifecycleConfig]() || t == reflect.TypeFor[*string]() {
			return nil
		}
		return new(string)
	}
	if !mayLack(v.Type()) {
		return nil
	}
	at := lacking(v)
	if at != nil && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Struct) {
		return place(".%s", *at)
	}
	return at
}

func place(format string, args ...any) *string {
	s := fmt.Sprintf(format, args...)
	return &s
}

// lackTypes caches which types may contain nil elements.
var lackTypes sync.Map // reflect.Type → bool

func mayLack(t reflect.Type) bool {
	if known, ok := lackTypes.Load(t); ok {
		return known.(bool)
	}
	may := searchLack(t, map[reflect.Type]bool{})
	lackTypes.Store(t, may)
	return may
}

// searchLack reports whether t contains a list or map of pointers. seen stops the recursion for recursive types.
func searchLack(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		return searchLack(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem().Kind() == reflect.Pointer || searchLack(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && searchLack(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
