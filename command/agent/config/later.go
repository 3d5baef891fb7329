package config

import (
	"errors"
	"reflect"
	"slices"
)

// refuseLater returns an error for every key with a later tag whose value is not the default.
func (s *Settings) refuseLater() error {
	return errors.Join(s.walkLater(reflect.ValueOf(s.Config), reflect.ValueOf(Default().Config), "", "")...)
}

// walkLater compares a block with its defaults. feature is the later tag of the block itself.
func (s *Settings) walkLater(block, deflt reflect.Value, path, feature string) []error {
	var errs []error
	defaults := fields(deflt)
	for i, f := range fields(block) {
		missing := feature
		if f.later != "" {
			missing = f.later
		}
		at := path + f.key
		switch {
		case f.mode == "label" || f.mode == "named":
			for _, name := range sortedKeys(f.value) {
				elem := f.value.MapIndex(name)
				errs = append(errs, s.blockLater(elem, at+"."+name.String(), missing)...)
			}
		case f.mode == "repeat":
			for j := range f.value.Len() {
				errs = append(errs, s.walkLater(f.value.Index(j).Elem(), newBlock(f.value.Type().Elem()).Elem(), at+".", missing)...)
			}
		case f.nested:
			errs = append(errs, s.walkLater(f.value, defaults[i].value, at+".", missing)...)
		case missing != "" && !reflect.DeepEqual(f.value.Interface(), defaults[i].value.Interface()):
			errs = append(errs, s.notYet(at, missing))
		}
	}
	return errs
}

// blockLater refuses a labeled block of a missing feature, even if its keys have their defaults.
func (s *Settings) blockLater(elem reflect.Value, path, missing string) []error {
	if missing != "" {
		return []error{s.notYet(path, missing)}
	}
	return s.walkLater(elem.Elem(), newBlock(elem.Type()).Elem(), path+".", "")
}

func (s *Settings) notYet(path, feature string) error {
	return &absentKey{s.place(path), path, feature}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return keys
}
