package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// answerPlace is the place of the keys that an agent shows.
var answerPlace = decode.Place{File: "shown by the agent"}

// DifferencesShown is Differences for the configuration that an agent of Nomad shows at
// /v1/agent/self. The agent shows every key under the name of a field, set or not. So a key counts
// as set if its value is neither empty nor the default, and a field whose name differs too much
// from that of its key is not found. The files of the agent show more.
func DifferencesShown(shown map[string]any) []Difference {
	s := Default()
	s.fill(reflect.ValueOf(&s.Config).Elem(), shown, "")
	s.forgetDerivedDirs()
	out, _ := absentKeys(errors.Join(s.refuseLater(), s.checkJoin(), s.checkCluster(), s.checkScheduler(), s.checkOptions(),
		s.checkConsulClaims()))
	slices.SortStableFunc(out, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return slices.Concat(out, s.unknownDrivers(), s.ignoredKeys())
}

// fill sets the keys of a block from the fields that an agent shows.
func (s *Settings) fill(block reflect.Value, shown map[string]any, path string) {
	fields := decode.Fields(block)
	names := newNames(fields, shown)
	for _, f := range fields {
		v, at := names.value(f.Key), path+f.Key
		switch {
		case f.Mode == "label" || f.Mode == "once":
			for name, body := range blocksByName(v) {
				elem := decode.NewBlock(f.Value.Type().Elem())
				s.fill(elem.Elem(), body, at+"."+name+".")
				if f.Value.IsNil() {
					f.Value.Set(reflect.MakeMap(f.Value.Type()))
				}
				f.Value.SetMapIndex(reflect.ValueOf(name), elem)
				s.set[at+"."+name] = answerPlace
			}
		case f.Mode == "byname":
			for _, body := range blocks(v) {
				elem := decode.NewBlock(f.Value.Type().Elem())
				s.fill(elem.Elem(), body, at+".")
				f.Value.Set(reflect.Append(f.Value, elem))
			}
		case f.Mode != "": // named blocks of other keys; no check needs them
		case f.Nested:
			if body, ok := v.(map[string]any); ok {
				s.fill(f.Value, body, at+".")
			}
		case assignShown(f.Value, v):
			s.set[at] = answerPlace
		}
	}
}

// names finds the field of a key in the fields that an agent shows.
type names struct {
	shown map[string]any // by the name in lower case, without underscores
	exact []string       // the keys of the block, in the same form
}

func newNames(fields []decode.Field, shown map[string]any) names {
	n := names{shown: map[string]any{}}
	for name, v := range shown {
		n.shown[plainName(name)] = v
	}
	for _, f := range fields {
		n.exact = append(n.exact, plainName(f.Key))
	}
	return n
}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// value returns the value of a key, or nil. The field has the name of the key, the name with an
// affix, or a shorter form of it: "Consuls", "TLSConfig", "EnableRPC", "Addr".
func (n names) value(key string) any {
	key = plainName(key)
	for _, name := range []string{key, key + "s", key + "config", "enable" + key} {
		if v, ok := n.shown[name]; ok {
			return v
		}
	}
	const shortest = 4
	for end := len(key) - 1; end >= shortest; end-- {
		if v, ok := n.shown[key[:end]]; ok && !slices.Contains(n.exact, key[:end]) {
			return v
		}
	}
	return nil
}

// blocks returns the blocks in a list.
func blocks(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, e := range list {
		if body, ok := e.(map[string]any); ok {
			out = append(out, body)
		}
	}
	return out
}

// blocksByName returns the labeled blocks in a map, or in a list of blocks with names.
func blocksByName(v any) map[string]map[string]any {
	out := map[string]map[string]any{}
	if m, ok := v.(map[string]any); ok {
		for name, body := range m {
			if block, ok := body.(map[string]any); ok {
				out[name] = block
			}
		}
	}
	for _, body := range blocks(v) {
		if name, ok := body["Name"].(string); ok && name != "" {
			out[name] = body
		}
	}
	return out
}

// assignShown sets a field to a value and reports whether that changes it. An empty value, or one
// of another type, changes nothing.
func assignShown(field reflect.Value, v any) bool {
	before := reflect.New(field.Type()).Elem()
	before.Set(field)
	value := reflect.New(field.Type()).Elem()
	var err error
	switch v := v.(type) {
	case string:
		err = decode.SetText(value, v)
	case bool:
		err = decode.SetText(value, strconv.FormatBool(v))
	case float64:
		err = decode.SetText(value, strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		setList(value, v)
	case map[string]any:
		setMap(value, v)
	}
	if err != nil || value.IsZero() || isEmpty(value) {
		return false
	}
	field.Set(value)
	return !reflect.DeepEqual(before.Interface(), field.Interface())
}

func isEmpty(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// setList sets a field that is a list of strings.
func setList(field reflect.Value, list []any) {
	if field.Type() != reflect.TypeFor[[]string]() {
		return
	}
	for _, e := range list {
		if text, ok := e.(string); ok {
			field.Set(reflect.Append(field, reflect.ValueOf(text)))
		}
	}
}

// setMap sets a field that is a map to strings or to any values.
func setMap(field reflect.Value, m map[string]any) {
	if field.Kind() != reflect.Map {
		return
	}
	field.Set(reflect.MakeMap(field.Type()))
	for key, v := range m {
		if text := reflect.ValueOf(v); text.IsValid() && text.Type().AssignableTo(field.Type().Elem()) {
			field.SetMapIndex(reflect.ValueOf(key), text)
		}
	}
}

// forgetDerivedDirs clears directories that an agent derives from data_dir.
func (s *Settings) forgetDerivedDirs() {
	derived := func(dir *string, parts ...string) {
		if *dir == filepath.Join(append([]string{s.DataDir}, parts...)...) {
			*dir = ""
		}
	}
	derived(&s.Config.PluginDir, "plugins")
	derived(&s.Client.AllocMountsDir, "..", "alloc_mounts")
	derived(&s.Client.HostVolumesDir, "host_volumes")
	derived(&s.Client.HostVolumePluginDir, "host_volume_plugins")
	derived(&s.Client.CommonPluginDir, "common_plugins")
}
