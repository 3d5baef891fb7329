package config

import "reflect"

// Changed lists the keys in which two configurations differ.
func Changed(before, after *Settings) []string {
	return changes(reflect.ValueOf(before.Config), reflect.ValueOf(after.Config), "")
}

// changes returns the keys in which two blocks differ.
func changes(before, after reflect.Value, path string) []string {
	var out []string
	now := fields(after)
	for i, f := range fields(before) {
		switch {
		case f.nested && f.mode == "":
			out = append(out, changes(f.value, now[i].value, path+f.key+".")...)
		case !reflect.DeepEqual(f.value.Interface(), now[i].value.Interface()):
			out = append(out, path+f.key)
		}
	}
	return out
}
