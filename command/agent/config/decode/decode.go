package decode

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"
)

// Field is one key of a block, as described by the tags of its struct field.
type Field struct {
	Key    string
	Mode   string // "", "label", "once", "named" or "byname"
	Later  string // the missing feature that the key requires
	Value  reflect.Value
	Nested bool // the value is a block
	deflt  string
	union  bool // a list adds to the previous one
}

// Fields returns the keys of a block, which is a struct.
func Fields(block reflect.Value) []Field {
	t := block.Type()
	out := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, mode, _ := strings.Cut(tag.Get("hcl"), ",")
		if key == "" {
			continue
		}
		out = append(out, Field{
			Key: key, Mode: mode, deflt: tag.Get("default"), Later: tag.Get("later"), Value: block.Field(i),
			Nested: mode != "" || t.Field(i).Type.Kind() == reflect.Struct, union: tag.Get("merge") == "union",
		})
	}
	return out
}

// SetDefaults sets the fields of a block to the defaults in their tags.
func SetDefaults(block reflect.Value) {
	for _, f := range Fields(block) {
		switch {
		case f.Mode != "":
		case f.Nested:
			SetDefaults(f.Value)
		case f.deflt != "":
			if err := SetText(f.Value, f.deflt); err != nil {
				panic("decode: bug: bad default of " + f.Key + ": " + err.Error()) // the tag is part of the program
			}
		}
	}
}

// OpenBlock is a labeled block that also accepts keys that are not fields of its struct.
type OpenBlock interface {
	SetLabel(label string)
	SetKey(key, text string)
}

// LenientBlock is a block that ignores keys that are not fields of its struct.
type LenientBlock interface{ Ignore(key string) }

// File decodes one file into a block, which keeps its other values. It records in set where
// each key was set. A file that begins with a brace is JSON, whatever its name. The error contains
// every error of the file with its place.
func File(src []byte, name string, block reflect.Value, set map[string]Place) error {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	read := parseHCL
	if filepath.Ext(name) == ".json" || bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		read = parseJSON
	}
	v, wrong := read(src, name)
	d := &decoder{set: set, once: map[string]Place{}, faults: wrong}
	d.block(v, block, "")
	return faults(d.faults, src)
}

// decoder decodes one file into a block and records where each key was set.
type decoder struct {
	set    map[string]Place
	once   map[string]Place // labeled blocks of this file
	faults []fault
}

func (d *decoder) report(at Place, format string, args ...any) {
	d.faults = append(d.faults, fault{at, fmt.Sprintf(format, args...)})
}

// block decodes the keys of a block. path is the path of the block with a final dot.
func (d *decoder) block(v value, block reflect.Value, path string) {
	all := Fields(block)
	for _, e := range v.entries {
		at := slices.IndexFunc(all, func(f Field) bool { return strings.EqualFold(f.Key, e.key) })
		if at >= 0 {
			d.set[path+all[at].Key] = e.at
			d.field(all[at], e, path+all[at].Key)
			continue
		}
		if b, ok := block.Addr().Interface().(OpenBlock); ok {
			d.set[path+e.key] = e.at
			if e.value.kind != scalar {
				d.report(e.value.at, "%s: expected a string, got %s", path+e.key, e.value.kind)
				continue
			}
			b.SetKey(e.key, e.value.text)
			continue
		}
		if b, ok := block.Addr().Interface().(LenientBlock); ok {
			d.set[path+e.key] = e.at
			b.Ignore(e.key)
			continue
		}
		d.report(e.at, "unknown key %q in %s%s", e.key, blockName(path), meant(e.key, all))
	}
}

// blockName returns the name of a block in messages.
func blockName(path string) string {
	if path == "" {
		return "an agent's configuration"
	}
	return "the block " + strings.TrimSuffix(path, ".")
}

// meant suggests the key with the most similar spelling.
func meant(key string, all []Field) string {
	best, least := "", 3
	for _, f := range all {
		if n := levenshtein.Distance(strings.ToLower(key), f.Key, nil); n < least && n < len(key) {
			best, least = f.Key, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// field decodes one key of a block.
func (d *decoder) field(f Field, e entry, path string) {
	if !f.Nested {
		if err := f.assign(e.value); err != nil {
			d.report(e.value.at, "%s: %v", path, err)
		}
		return
	}
	bodies, err := e.value.blocks()
	if err != nil {
		d.report(e.at, "%s: %v", path, err)
		return
	}
	for _, body := range bodies {
		switch f.Mode {
		case "label", "once", "named":
			d.labeled(f, body, path)
		case "byname":
			d.block(body, ByName(f.Value, body.name()).Elem(), path+".")
		default:
			d.block(body, f.Value, path+".")
		}
	}
}

// labeled decodes the labeled blocks of one key. A block with the same label in an earlier file
// is merged key by key.
func (d *decoder) labeled(f Field, body value, path string) {
	if f.Value.IsNil() {
		f.Value.Set(reflect.MakeMap(f.Value.Type()))
	}
	for _, e := range body.entries {
		bodies, err := e.value.blocks()
		if err != nil {
			d.report(e.at, "%s: expected a name in quotes before the block: %s \"name\" { ... }", path, f.Key)
			continue
		}
		for _, b := range bodies {
			label := e.key
			if f.Mode == "named" {
				label = named(e.key, b)
			}
			if first, again := d.once[path+"."+label]; f.Mode == "once" && again {
				d.report(e.at, "%s.%s: duplicate block, first at line %d: rename one, or merge them", path, label, first.Line)
				continue
			}
			d.set[path+"."+label], d.once[path+"."+label] = e.at, e.at
			elem := f.Value.MapIndex(reflect.ValueOf(label))
			if !elem.IsValid() {
				elem = NewBlock(f.Value.Type().Elem())
				f.Value.SetMapIndex(reflect.ValueOf(label), elem)
			}
			if b, ok := elem.Interface().(OpenBlock); ok {
				b.SetLabel(e.key)
			}
			d.block(b, elem.Elem(), path+"."+label+".")
		}
	}
}

// named returns label and the value of the key name, which distinguishes blocks with the same
// label.
func named(label string, body value) string {
	for _, e := range body.entries {
		if e.key == "name" && e.value.kind == scalar && e.value.text != "" {
			return label + "." + e.value.text
		}
	}
	return label
}

// name returns the value of the key name of a block, "" if it is absent.
func (v value) name() string {
	for _, e := range v.entries {
		if strings.EqualFold(e.key, "name") && e.value.kind == scalar {
			return e.value.text
		}
	}
	return ""
}

// ByName returns the block with a name in a list of blocks, and adds it if it is missing. The name "" is the default one.
func ByName(list reflect.Value, name string) reflect.Value {
	added := NewBlock(list.Type().Elem())
	own := func(block reflect.Value) reflect.Value {
		all := Fields(block.Elem())
		return all[slices.IndexFunc(all, func(f Field) bool { return f.Key == "name" })].Value
	}
	if name == "" {
		name = own(added).String()
	}
	for i := range list.Len() {
		if own(list.Index(i)).String() == name {
			return list.Index(i)
		}
	}
	own(added).SetString(name)
	list.Set(reflect.Append(list, added))
	return added
}

// NewBlock returns a pointer to a new block with its defaults.
func NewBlock(pointer reflect.Type) reflect.Value {
	v := reflect.New(pointer.Elem())
	SetDefaults(v.Elem())
	return v
}

// assign sets the field. With merge:"union", a list keeps the previous elements and adds the ones that are not among them.
func (f Field) assign(v value) error {
	if !f.union {
		return assign(f.Value, v)
	}
	before := f.Value.Interface().([]string)
	if err := assign(f.Value, v); err != nil {
		return err
	}
	merged := slices.Clone(before)
	for _, text := range f.Value.Interface().([]string) {
		if !slices.Contains(merged, text) {
			merged = append(merged, text)
		}
	}
	f.Value.Set(reflect.ValueOf(merged))
	return nil
}

// assign converts a value of the file to the type of its field and sets the field.
func assign(field reflect.Value, v value) error {
	switch field.Kind() {
	case reflect.Slice:
		list, err := v.strings()
		if err == nil {
			field.Set(reflect.ValueOf(list))
		}
		return err
	case reflect.Map:
		return assignMap(field, v)
	}
	if v.kind != scalar {
		return fmt.Errorf("expected %s, got %s", kindName(field), v.kind)
	}
	return SetText(field, v.text)
}

// assignMap merges blocks into a map. Files add keys to those of earlier files.
func assignMap(field reflect.Value, v value) error {
	bodies, err := v.blocks()
	if err != nil {
		return err
	}
	merged := reflect.MakeMap(field.Type())
	for it := field.MapRange(); it.Next(); {
		merged.SetMapIndex(it.Key(), it.Value())
	}
	for _, body := range bodies {
		if field.Type().Elem().Kind() == reflect.Interface {
			for key, val := range body.plain().(map[string]any) {
				merged.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(&val).Elem())
			}
			continue
		}
		for _, e := range body.entries {
			if e.value.kind != scalar {
				return fmt.Errorf("the value of %q must be a string, not %s", e.key, e.value.kind)
			}
			merged.SetMapIndex(reflect.ValueOf(e.key), reflect.ValueOf(e.value.text))
		}
	}
	field.Set(merged)
	return nil
}

// SetText sets a field from the text of a default, a flag or a scalar in a file.
func SetText(field reflect.Value, text string) error {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if n, numErr := strconv.ParseInt(text, 10, 64); err != nil && numErr == nil {
			d, err = time.Duration(n), nil // nanoseconds, as in JSON
		}
		field.SetInt(int64(d))
		return wrong(field, text, err)
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		field.SetBool(b)
		return wrong(field, text, err)
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		field.SetInt(n)
		return wrong(field, text, err)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		field.SetFloat(f)
		return wrong(field, text, err)
	case reflect.Slice:
		field.Set(reflect.ValueOf(strings.Split(text, ",")))
	case reflect.Map:
		key, val, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form key=value", text)
		}
		if field.IsNil() {
			field.Set(reflect.MakeMap(field.Type()))
		}
		field.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(val))
	}
	return nil
}

// wrong returns an error that names the expected type in place of text.
func wrong(field reflect.Value, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("expected %s, got %q", kindName(field), text)
}

func kindName(field reflect.Value) string {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		return `a duration such as "30s"`
	}
	switch field.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}
