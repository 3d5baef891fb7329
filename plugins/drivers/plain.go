package drivers

import (
	"math"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// plain decodes a block whose arguments are words, whole numbers, yes or no, and lists
// of them: nearly all are. It makes of them what hcldec would, without the text in
// between that costs as much as the rest of a registration. It says false of what it does
// not know, or takes for wrong: then hcldec decides, and says what is wrong.
func plain(block map[string]any, spec hcldec.Spec) (cty.Value, bool) {
	object, ok := spec.(hcldec.ObjectSpec)
	if !ok {
		return cty.NilVal, false
	}
	for name := range block {
		if !names(object, name) {
			return cty.NilVal, false
		}
	}
	out := make(map[string]cty.Value, len(object))
	for at, s := range object {
		if out[at], ok = field(block, s); !ok {
			return cty.NilVal, false
		}
	}
	return cty.ObjectVal(out), true
}

// names says whether a field of the schema has the name.
func names(object hcldec.ObjectSpec, name string) bool {
	for _, s := range object {
		if a, ok := s.(*hcldec.AttrSpec); ok && a.Name == name {
			return true
		}
	}
	return false
}

// field returns what one field of the schema is in the block. Blocks within it are left
// to hcldec, unless there are none.
func field(block map[string]any, spec hcldec.Spec) (cty.Value, bool) {
	switch s := spec.(type) {
	case *hcldec.AttrSpec:
		if given, is := block[s.Name]; is {
			return attribute(given, s.Type)
		}
		return cty.NullVal(s.Type), !s.Required && isPlain(s.Type)
	case *hcldec.BlockAttrsSpec:
		return cty.NullVal(cty.Map(s.ElementType)), !s.Required && s.ElementType.IsPrimitiveType()
	case *hcldec.BlockSpec:
		return cty.NullVal(hcldec.ImpliedType(s).WithoutOptionalAttributesDeep()), !s.Required
	}
	return cty.NilVal, false
}

// isPlain says whether values of the type are words, numbers, yes or no, or lists of them.
func isPlain(t cty.Type) bool {
	return t.IsPrimitiveType() || t.IsListType() && t.ElementType().IsPrimitiveType()
}

// attribute makes a value of the type of what was given.
func attribute(given any, want cty.Type) (cty.Value, bool) {
	if !isPlain(want) {
		return cty.NilVal, false
	}
	val, ok := scalar(given)
	switch list := given.(type) {
	case []any:
		val, ok = tuple(list)
	case []string:
		val, ok = tuple(list)
	}
	if !ok {
		return cty.NilVal, false
	}
	val, err := convert.Convert(val, want)
	return val, err == nil
}

// tuple makes one of a list of scalars.
func tuple[T any](list []T) (cty.Value, bool) {
	vals := make([]cty.Value, len(list))
	for i, e := range list {
		v, ok := scalar(e)
		if !ok {
			return cty.NilVal, false
		}
		vals[i] = v
	}
	return cty.TupleVal(vals), true
}

// exact bounds the whole numbers that a float64 tells apart.
const exact = 1 << 53

// scalar makes a value of a word, a whole number, yes or no.
func scalar(given any) (cty.Value, bool) {
	switch v := given.(type) {
	case string:
		return cty.StringVal(v), utf8.ValidString(v)
	case bool:
		return cty.BoolVal(v), true
	case int:
		return cty.NumberIntVal(int64(v)), true
	case int64:
		return cty.NumberIntVal(v), true
	case float64:
		whole := v == math.Trunc(v) && math.Abs(v) < exact && (v != 0 || !math.Signbit(v))
		if !whole {
			return cty.NilVal, false
		}
		return cty.NumberIntVal(int64(v)), true
	}
	return cty.NilVal, false
}
