package agent

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// field is one key of a block, as the tags of its struct field say.
type field struct {
	key    string
	mode   string // "", "label" or "repeat"
	deflt  string
	later  string
	value  reflect.Value
	nested bool // a block of keys of its own
}

// fields returns the keys of a block, which is a struct.
func fields(block reflect.Value) []field {
	t := block.Type()
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, mode, _ := strings.Cut(tag.Get("hcl"), ",")
		if key == "" {
			continue
		}
		out = append(out, field{
			key: key, mode: mode, deflt: tag.Get("default"), later: tag.Get("later"), value: block.Field(i),
			nested: mode != "" || t.Field(i).Type.Kind() == reflect.Struct,
		})
	}
	return out
}

// setDefaults fills a block from its tags.
func setDefaults(block reflect.Value) {
	for _, f := range fields(block) {
		switch {
		case f.mode != "":
		case f.nested:
			setDefaults(f.value)
		case f.deflt != "":
			if err := setText(f.value, f.deflt); err != nil {
				panic("agent: bad default of " + f.key + ": " + err.Error()) // a tag of ours
			}
		}
	}
}

// decoder writes one file over a Config and notes where each key was set.
type decoder struct {
	json bool
	set  map[string]hcl.Range
}

// block decodes the body of a block. Path is its own, with a dot at the end.
func (d *decoder) block(body hcl.Body, block reflect.Value, path string) hcl.Diagnostics {
	all := fields(block)
	schema := &hcl.BodySchema{}
	for _, f := range all {
		switch {
		case f.mode == "label":
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: f.key, LabelNames: []string{"name"}})
		case f.nested:
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: f.key})
		default:
			schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: f.key})
			if f.value.Kind() == reflect.Map && !d.json { // meta { a = "b" }
				schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: f.key})
			}
		}
	}
	content, rest, diags := d.content(body, block, schema)
	for _, f := range all {
		if attr := content.Attributes[f.key]; attr != nil {
			d.set[path+f.key] = attr.Range
			val, more := attr.Expr.Value(nil)
			if diags = append(diags, more...); !more.HasErrors() {
				diags = append(diags, setValue(f.value, val, attr.Expr.Range())...)
			}
		}
		for _, b := range content.Blocks.OfType(f.key) {
			d.set[path+f.key] = b.DefRange
			diags = append(diags, d.nested(f, b, path)...)
		}
	}
	return append(diags, d.extra(block, rest, path)...)
}

// content reads what the schema knows. A block whose other keys belong to a provider
// keeps them as the rest.
func (d *decoder) content(body hcl.Body, block reflect.Value, schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	if block.Type() == reflect.TypeFor[Keyring]() {
		return body.PartialContent(schema)
	}
	content, diags := body.Content(schema)
	return content, nil, diags
}

// extra keeps the keys that a keyring block passes to its provider.
func (d *decoder) extra(block reflect.Value, rest hcl.Body, path string) hcl.Diagnostics {
	if rest == nil {
		return nil
	}
	attrs, diags := rest.JustAttributes()
	k := block.Addr().Interface().(*Keyring)
	k.provider = map[string]bool{}
	for name, attr := range attrs {
		k.provider[name] = true
		d.set[path+name] = attr.Range
	}
	return diags
}

// nested decodes one block of a field.
func (d *decoder) nested(f field, b *hcl.Block, path string) hcl.Diagnostics {
	switch {
	case f.mode == "label":
		if f.value.IsNil() {
			f.value.Set(reflect.MakeMap(f.value.Type()))
		}
		name := reflect.ValueOf(b.Labels[0])
		elem := f.value.MapIndex(name)
		if !elem.IsValid() {
			elem = newBlock(f.value.Type().Elem())
			f.value.SetMapIndex(name, elem)
		}
		return d.block(b.Body, elem.Elem(), path+f.key+"."+b.Labels[0]+".")
	case f.mode == "repeat":
		elem := newBlock(f.value.Type().Elem())
		f.value.Set(reflect.Append(f.value, elem))
		return d.block(b.Body, elem.Elem(), path+f.key+".")
	case f.nested:
		return d.block(b.Body, f.value, path+f.key+".")
	}
	val, diags := bodyValue(b.Body)
	if diags.HasErrors() {
		return diags
	}
	return append(diags, setValue(f.value, val, b.DefRange)...)
}

// newBlock makes a block with its defaults, as a pointer.
func newBlock(pointer reflect.Type) reflect.Value {
	v := reflect.New(pointer.Elem())
	setDefaults(v.Elem())
	return v
}

// bodyValue makes an object of a body whose keys are free, such as meta or the
// config of a plugin. Blocks in it become objects, of the same name several a list.
func bodyValue(body hcl.Body) (cty.Value, hcl.Diagnostics) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		attrs, diags := body.JustAttributes()
		vals := map[string]cty.Value{}
		for name, attr := range attrs {
			v, more := attr.Expr.Value(nil)
			vals[name], diags = v, append(diags, more...)
		}
		return cty.ObjectVal(vals), diags
	}
	vals := map[string]cty.Value{}
	var diags hcl.Diagnostics
	for name, attr := range native.Attributes {
		v, more := attr.Expr.Value(nil)
		vals[name], diags = v, append(diags, more...)
	}
	blocks := map[string][]cty.Value{}
	for _, b := range native.Blocks {
		v, more := bodyValue(b.Body)
		for i := len(b.Labels) - 1; i >= 0; i-- {
			v = cty.ObjectVal(map[string]cty.Value{b.Labels[i]: v})
		}
		blocks[b.Type], diags = append(blocks[b.Type], v), append(diags, more...)
	}
	for name, list := range blocks {
		if vals[name] = list[0]; len(list) > 1 {
			vals[name] = cty.TupleVal(list)
		}
	}
	return cty.ObjectVal(vals), diags
}

// setValue converts a value of the file to the type of its field.
func setValue(field reflect.Value, val cty.Value, at hcl.Range) hcl.Diagnostics {
	if err := assign(field, val); err != nil {
		return hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Wrong value", Detail: err.Error(), Subject: at.Ptr(),
		}}
	}
	return nil
}

func assign(field reflect.Value, val cty.Value) error {
	if val.IsNull() {
		return fmt.Errorf("a value is expected, not null")
	}
	switch field.Kind() {
	case reflect.Slice:
		list, err := stringList(val)
		field.Set(reflect.ValueOf(list))
		return err
	case reflect.Map:
		return assignMap(field, val)
	}
	text, err := convert.Convert(val, cty.String)
	if err != nil || !text.IsKnown() {
		return fmt.Errorf("%s is expected", kindName(field))
	}
	return setText(field, text.AsString())
}

// assignMap merges a map into the field: files add keys to those before.
func assignMap(field reflect.Value, val cty.Value) error {
	if !val.Type().IsObjectType() && !val.Type().IsMapType() {
		return fmt.Errorf("a map is expected")
	}
	merged := reflect.MakeMap(field.Type())
	for it := field.MapRange(); it.Next(); {
		merged.SetMapIndex(it.Key(), it.Value())
	}
	for name, v := range val.AsValueMap() {
		if field.Type().Elem().Kind() == reflect.Interface {
			merged.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(plain(v)))
			continue
		}
		text, err := convert.Convert(v, cty.String)
		if err != nil || text.IsNull() {
			return fmt.Errorf("the value of %q is no string", name)
		}
		merged.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text.AsString()))
	}
	field.Set(merged)
	return nil
}

// stringList takes a list of strings, or one string for a list of one.
func stringList(val cty.Value) ([]string, error) {
	if val.Type() == cty.String {
		return []string{val.AsString()}, nil
	}
	if !val.CanIterateElements() || val.Type().IsObjectType() || val.Type().IsMapType() {
		return nil, fmt.Errorf("a list of strings is expected")
	}
	list := []string{}
	for it := val.ElementIterator(); it.Next(); {
		_, v := it.Element()
		text, err := convert.Convert(v, cty.String)
		if err != nil || text.IsNull() {
			return nil, fmt.Errorf("a list of strings is expected")
		}
		list = append(list, text.AsString())
	}
	return list, nil
}

// plain makes ordinary Go values, as encoding/json would.
func plain(v cty.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type() == cty.Number:
		f, _ := v.AsBigFloat().Float64()
		return f
	case v.Type().IsObjectType() || v.Type().IsMapType():
		m := map[string]any{}
		for name, e := range v.AsValueMap() {
			m[name] = plain(e)
		}
		return m
	}
	list := []any{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		list = append(list, plain(e))
	}
	return list
}

// setText sets a field from its text form: that of defaults, of flags, and of
// single values in files.
func setText(field reflect.Value, text string) error {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if n, numErr := strconv.ParseInt(text, 10, 64); err != nil && numErr == nil {
			d, err = time.Duration(n), nil // nanoseconds, as JSON writers have them
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

// wrong says what was expected in place of text.
func wrong(field reflect.Value, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is expected, not %q", kindName(field), text)
}

func kindName(field reflect.Value) string {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		return `a duration such as "30s"`
	}
	switch field.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}
