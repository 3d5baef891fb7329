package config

import (
	"errors"
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// refuseLater returns an error for every key with a later tag whose value is not the default.
func (s *Settings) refuseLater() error {
	return errors.Join(s.walkLater(reflect.ValueOf(s.Config), reflect.ValueOf(Default().Config), "", "")...)
}

// walkLater compares a block with its defaults. feature is the later tag of the block itself.
func (s *Settings) walkLater(block, deflt reflect.Value, path, feature string) []error {
	var errs []error
	defaults := decode.Fields(deflt)
	for i, f := range decode.Fields(block) {
		missing := feature
		if f.Later != "" {
			missing = f.Later
		}
		at := path + f.Key
		switch {
		case f.Mode == "label" || f.Mode == "once" || f.Mode == "named":
			for _, name := range sortedKeys(f.Value) {
				elem := f.Value.MapIndex(name)
				errs = append(errs, s.blockLater(elem, at+"."+name.String(), missing)...)
			}
		case f.Mode == "byname":
			for j := range f.Value.Len() {
				errs = append(errs, s.walkLater(f.Value.Index(j).Elem(), decode.NewBlock(f.Value.Type().Elem()).Elem(), at+".", missing)...)
			}
		case f.Nested:
			errs = append(errs, s.walkLater(f.Value, defaults[i].Value, at+".", missing)...)
		case missing != "" && !reflect.DeepEqual(f.Value.Interface(), defaults[i].Value.Interface()):
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
	return s.walkLater(elem.Elem(), decode.NewBlock(elem.Type()).Elem(), path+".", "")
}

func (s *Settings) notYet(path, feature string) error {
	return &absentKey{place: s.place(path), key: path, feature: feature}
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
