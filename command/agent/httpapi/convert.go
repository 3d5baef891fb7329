package httpapi

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// convert carries a value across to another type that has the same names: the result is
// what encoding it as JSON and decoding that would give, without the text in between. A pointer that is nil, and what is left out when it is empty,
// stay zero. Values of the same type are shared, so from must not be written to any more.
func convert[To, From any](to *To, from *From) error {
	across, err := conversion(reflect.TypeFor[To](), reflect.TypeFor[From]())
	if err != nil {
		return err
	}
	return across(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

// across sets to, which is zero, to what from says.
type across func(to, from reflect.Value) error

// typePair is what a conversion is between.
type typePair struct{ to, from reflect.Type }

// conversions remembers how types are converted: *pending by typePair.
var conversions sync.Map

// pending is a conversion of structs; those of recursive types find themselves in it.
type pending struct {
	once   sync.Once
	fields []fieldAcross
	err    error
}

// fieldAcross is how one field of a struct is carried across.
type fieldAcross struct {
	name     string
	to, from []int
	across   across
	omit     bool // an empty one is left out
}

// conversion finds out how values are converted.
func conversion(to, from reflect.Type) (across, error) {
	switch {
	case to == from:
		return func(to, from reflect.Value) error { to.Set(from); return nil }, nil
	case from.Kind() == reflect.Pointer:
		return fromPointer(to, from)
	case to.Kind() == reflect.Pointer:
		return toPointer(to, from)
	case to.Kind() == reflect.Struct && from.Kind() == reflect.Struct:
		return structs(to, from), nil
	case to.Kind() == reflect.Slice && from.Kind() == reflect.Slice:
		return slicesAcross(to, from)
	case to.Kind() == reflect.Map && from.Kind() == reflect.Map && to.Key() == from.Key():
		return mapsAcross(to, from)
	}
	return scalars(to, from)
}

// fromPointer converts what is pointed to.
func fromPointer(to, from reflect.Type) (across, error) {
	elem, err := conversion(to, from.Elem())
	return func(to, from reflect.Value) error {
		if from.IsNil() {
			return nil
		}
		return elem(to, from.Elem())
	}, err
}

// toPointer makes something to point to.
func toPointer(to, from reflect.Type) (across, error) {
	elem, err := conversion(to.Elem(), from)
	absent := from.Kind() == reflect.Slice || from.Kind() == reflect.Map
	return func(to, from reflect.Value) error {
		if absent && from.IsNil() {
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return elem(to.Elem(), from)
	}, err
}

// structs converts field by field. The fields are looked at when the first value comes.
func structs(to, from reflect.Type) across {
	found, _ := conversions.LoadOrStore(typePair{to, from}, &pending{})
	p := found.(*pending)
	return func(to, from reflect.Value) error {
		p.once.Do(func() { p.fields, p.err = fieldsAcross(to.Type(), from.Type()) })
		if p.err != nil {
			return p.err
		}
		for i := range p.fields {
			f := &p.fields[i]
			value := from.FieldByIndex(f.from)
			if f.omit && isEmpty(value) {
				continue
			}
			if err := f.across(to.FieldByIndex(f.to), value); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	}
}

// fieldsAcross pairs the fields of two structs by the names that they have in JSON,
// whatever their case. What has no counterpart is left behind.
func fieldsAcross(to, from reflect.Type) ([]fieldAcross, error) {
	targets := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(to) {
		if name, _ := jsonName(f); name != "" {
			targets[strings.ToLower(name)] = f
		}
	}
	var out []fieldAcross
	for _, f := range reflect.VisibleFields(from) {
		name, omit := jsonName(f)
		target, ok := targets[strings.ToLower(name)]
		if name == "" || !ok {
			continue
		}
		way, err := conversion(target.Type, f.Type)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", from, f.Name, err)
		}
		out = append(out, fieldAcross{name: name, to: target.Index, from: f.Index, across: way, omit: omit})
	}
	return out, nil
}

// jsonName returns the name of a field in JSON, "" for one that is not in it, and
// whether it is left out when it is empty.
func jsonName(f reflect.StructField) (name string, omit bool) {
	tag := f.Tag.Get("json")
	if !f.IsExported() || f.Anonymous || tag == "-" {
		return "", false
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	return name, strings.Contains(options, "omitempty")
}

// isEmpty says whether encoding/json leaves out a value that is marked omitempty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// slicesAcross converts item by item.
func slicesAcross(to, from reflect.Type) (across, error) {
	item, err := conversion(to.Elem(), from.Elem())
	return func(to, from reflect.Value) error {
		if from.IsNil() {
			return nil
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			if err := item(to.Index(i), from.Index(i)); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	}, err
}

// mapsAcross converts value by value.
func mapsAcross(to, from reflect.Type) (across, error) {
	item, err := conversion(to.Elem(), from.Elem())
	return func(to, from reflect.Value) error {
		if from.IsNil() {
			return nil
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
		for it := from.MapRange(); it.Next(); {
			v := reflect.New(to.Type().Elem()).Elem()
			if err := item(v, it.Value()); err != nil {
				return fmt.Errorf("%v: %w", it.Key(), err)
			}
			to.SetMapIndex(it.Key(), v)
		}
		return nil
	}, err
}

// scalars converts numbers and named types. A number that does not fit is an error.
func scalars(to, from reflect.Type) (across, error) {
	v := reflect.Zero(to)
	switch {
	case to.Kind() == from.Kind() && from.ConvertibleTo(to) && to.Kind() != reflect.Interface:
		return func(to, from reflect.Value) error { to.Set(from.Convert(to.Type())); return nil }, nil
	case v.CanInt() && reflect.Zero(from).CanInt():
		return func(to, from reflect.Value) error {
			if to.OverflowInt(from.Int()) {
				return fmt.Errorf("%d is out of range", from.Int())
			}
			to.SetInt(from.Int())
			return nil
		}, nil
	case v.CanUint() && reflect.Zero(from).CanUint():
		return func(to, from reflect.Value) error {
			if to.OverflowUint(from.Uint()) {
				return fmt.Errorf("%d is out of range", from.Uint())
			}
			to.SetUint(from.Uint())
			return nil
		}, nil
	case v.CanUint() && reflect.Zero(from).CanInt():
		return func(to, from reflect.Value) error {
			if from.Int() < 0 || to.OverflowUint(uint64(from.Int())) {
				return fmt.Errorf("%d is out of range", from.Int())
			}
			to.SetUint(uint64(from.Int()))
			return nil
		}, nil
	}
	return nil, fmt.Errorf("there is no way from %v to %v", from, to)
}
