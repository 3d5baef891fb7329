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
		case !reflect.DeepEqual(f.Value.Interface(), now[i].Value.Interface()):
			out = append(out, path+f.Key)
		}
	}
	return out
}
