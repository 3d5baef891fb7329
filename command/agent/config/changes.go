package config

import (
	"reflect"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// Changed lists the keys in which two configurations differ.
func Changed(before, after *Settings) []string {
	return changes(reflect.ValueOf(before.Config), reflect.ValueOf(after.Config), "")
}

// changes returns the keys in which two blocks differ.
func changes(before, after reflect.Value, path string) []string {
	var out []string
	now := decode.Fields(after)
	for i, f := range decode.Fields(before) {
		switch {
		case f.Nested && f.Mode == "":
			out = append(out, changes(f.Value, now[i].Value, path+f.Key+".")...)
		case f.Mode == "byname" && sameNames(f.Value, now[i].Value):
			for j := range f.Value.Len() {
				out = append(out, changes(f.Value.Index(j).Elem(), now[i].Value.Index(j).Elem(), path+f.Key+".")...)
			}
		case !reflect.DeepEqual(f.Value.Interface(), now[i].Value.Interface()):
			out = append(out, path+f.Key)
		}
	}
	return out
}

// sameNames reports whether two lists have blocks of the same names, in the same order.
func sameNames(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	name := func(block reflect.Value) string { return block.Elem().FieldByName("Name").String() }
	for i := range a.Len() {
		if name(a.Index(i)) != name(b.Index(i)) {
			return false
		}
	}
	return true
}
