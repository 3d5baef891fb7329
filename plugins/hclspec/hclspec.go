// Package hclspec converts the schemas of configuration blocks between hcldec, which decodes the
// blocks, and the messages of the plugin protocol.
//
//	hcldec.Spec ──Encode──▶ proto.Spec ──Decode──▶ hcldec.Spec
//
// The schema of a plugin is not trusted: Decode limits its size and depth. An error names the invalid
// part of the schema. The package has no state and no goroutine.
package hclspec

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/open-nomad/open-nomad/plugins/proto"
)

// Limits of a schema.
const (
	maxDepth = 32
	maxNodes = 10_000
	maxText  = 16 << 10 // bytes of a type or a literal
)

// functions are the functions of literals.
var functions = map[string]function.Function{
	"abs":        stdlib.AbsoluteFunc,
	"coalesce":   stdlib.CoalesceFunc,
	"concat":     stdlib.ConcatFunc,
	"hasindex":   stdlib.HasIndexFunc,
	"int":        stdlib.IntFunc,
	"jsondecode": stdlib.JSONDecodeFunc,
	"jsonencode": stdlib.JSONEncodeFunc,
	"length":     stdlib.LengthFunc,
	"lower":      stdlib.LowerFunc,
	"max":        stdlib.MaxFunc,
	"min":        stdlib.MinFunc,
	"reverse":    stdlib.ReverseFunc,
	"strlen":     stdlib.StrlenFunc,
	"substr":     stdlib.SubstrFunc,
	"upper":      stdlib.UpperFunc,
}

// Decode returns the hcldec form of a schema, which must be that of a block: an object. A schema
// that is not set has no attributes.
func Decode(s *proto.Spec) (hcldec.ObjectSpec, error) {
	if s.GetBlock() == nil {
		return hcldec.ObjectSpec{}, nil
	}
	d := &decoder{}
	spec, err := d.spec(s, "", "schema", 0)
	if err != nil {
		return nil, err
	}
	object, ok := spec.(hcldec.ObjectSpec)
	if !ok {
		return nil, errors.New("schema: is not an object")
	}
	return object, nil
}

// decoder counts the nodes of a schema.
type decoder struct{ nodes int }

// spec decodes one node. key is its name in an object, the default of a name that is not set. at is its
// place, for errors.
func (d *decoder) spec(s *proto.Spec, key, at string, depth int) (hcldec.Spec, error) {
	if d.nodes++; d.nodes > maxNodes {
		return nil, fmt.Errorf("schema: has more than %d parts", maxNodes)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: is nested more than %d times", at, maxDepth)
	}
	switch b := s.GetBlock().(type) {
	case *proto.Spec_Object:
		return d.object(b.Object, at, depth)
	case *proto.Spec_Array:
		return d.array(b.Array, at, depth)
	case *proto.Spec_Attr:
		return attribute(b.Attr, key, at)
	case *proto.Spec_Default:
		return d.fallback(b.Default, key, at, depth)
	case *proto.Spec_Literal:
		return literal(b.Literal, at)
	}
	return d.block(s, key, at, depth)
}

// block decodes a node that is a block of the configuration.
func (d *decoder) block(s *proto.Spec, key, at string, depth int) (hcldec.Spec, error) {
	var name string
	var nested *proto.Spec
	switch b := s.GetBlock().(type) {
	case *proto.Spec_BlockAttrs:
		return blockAttrs(b.BlockAttrs, key, at)
	case *proto.Spec_BlockValue:
		name, nested = b.BlockValue.GetName(), b.BlockValue.GetNested()
	case *proto.Spec_BlockList:
		name, nested = b.BlockList.GetName(), b.BlockList.GetNested()
	case *proto.Spec_BlockSet:
		name, nested = b.BlockSet.GetName(), b.BlockSet.GetNested()
	case *proto.Spec_BlockMap:
		name, nested = b.BlockMap.GetName(), b.BlockMap.GetNested()
	default:
		return nil, fmt.Errorf("%s: is empty, or of an unknown kind", at)
	}
	name, err := named(name, key, at)
	if err != nil {
		return nil, err
	}
	inner, err := d.spec(nested, "", at, depth+1)
	if err != nil {
		return nil, err
	}
	switch b := s.GetBlock().(type) {
	case *proto.Spec_BlockValue:
		return &hcldec.BlockSpec{TypeName: name, Nested: inner, Required: b.BlockValue.GetRequired()}, nil
	case *proto.Spec_BlockList:
		low, high, err := bounds(b.BlockList.GetMinItems(), b.BlockList.GetMaxItems(), at)
		return &hcldec.BlockListSpec{TypeName: name, Nested: inner, MinItems: low, MaxItems: high}, err
	case *proto.Spec_BlockSet:
		low, high, err := bounds(b.BlockSet.GetMinItems(), b.BlockSet.GetMaxItems(), at)
		return &hcldec.BlockSetSpec{TypeName: name, Nested: inner, MinItems: low, MaxItems: high}, err
	}
	labels := s.GetBlockMap().GetLabels()
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s: has no labels", at)
	}
	if hcldec.ImpliedType(inner).HasDynamicTypes() {
		return nil, fmt.Errorf("%s: a block with labels has an attribute of type any, which HCL does not support", at)
	}
	return &hcldec.BlockMapSpec{TypeName: name, LabelNames: labels, Nested: inner}, nil
}

func (d *decoder) object(o *proto.Object, at string, depth int) (hcldec.Spec, error) {
	out := hcldec.ObjectSpec{}
	for key, s := range o.GetAttributes() {
		inner, err := d.spec(s, key, at+"."+key, depth+1)
		if err != nil {
			return nil, err
		}
		out[key] = inner
	}
	return out, nil
}

func (d *decoder) array(a *proto.Array, at string, depth int) (hcldec.Spec, error) {
	out := hcldec.TupleSpec{}
	for i, s := range a.GetValues() {
		inner, err := d.spec(s, "", fmt.Sprintf("%s[%d]", at, i), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner)
	}
	return out, nil
}

func (d *decoder) fallback(f *proto.Default, key, at string, depth int) (hcldec.Spec, error) {
	primary, err := d.spec(f.GetPrimary(), key, at, depth+1)
	if err != nil {
		return nil, err
	}
	second, err := d.spec(f.GetDefault(), key, at, depth+1)
	if err != nil {
		return nil, err
	}
	return &hcldec.DefaultSpec{Primary: primary, Default: second}, nil
}

func attribute(a *proto.Attr, key, at string) (hcldec.Spec, error) {
	name, err := named(a.GetName(), key, at)
	if err != nil {
		return nil, err
	}
	t, err := parseType(a.GetType(), at)
	return &hcldec.AttrSpec{Name: name, Type: t, Required: a.GetRequired()}, err
}

func blockAttrs(b *proto.BlockAttrs, key, at string) (hcldec.Spec, error) {
	name, err := named(b.GetName(), key, at)
	if err != nil {
		return nil, err
	}
	t, err := parseType(b.GetType(), at)
	return &hcldec.BlockAttrsSpec{TypeName: name, ElementType: t, Required: b.GetRequired()}, err
}

func named(name, key, at string) (string, error) {
	if name == "" {
		name = key
	}
	if !hclsyntax.ValidIdentifier(name) {
		return "", fmt.Errorf("%s: %q is not a name", at, name)
	}
	return name, nil
}

// maxItems limits the repetitions of a block, so that they fit an int on every machine.
const maxItems = 1 << 30

func bounds(low, high uint64, at string) (int, int, error) {
	if low > maxItems || high > maxItems || high != 0 && low > high {
		return 0, 0, fmt.Errorf("%s: %d to %d items is not a range", at, low, high)
	}
	return int(low), int(high), nil
}

func parseType(text, at string) (cty.Type, error) {
	expr, err := parse(text, at)
	if err != nil {
		return cty.NilType, err
	}
	t, diags := typeexpr.TypeConstraint(expr)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("%s: %q is not a type: %s", at, text, diags[0].Detail)
	}
	return t, nil
}

func literal(l *proto.Literal, at string) (hcldec.Spec, error) {
	expr, err := parse(l.GetValue(), at)
	if err != nil {
		return nil, err
	}
	val, diags := expr.Value(&hcl.EvalContext{Functions: functions})
	if diags.HasErrors() {
		return nil, fmt.Errorf("%s: the literal %q has no value: %s", at, l.GetValue(), diags[0].Detail)
	}
	return &hcldec.LiteralSpec{Value: val}, nil
}

func parse(text, at string) (hcl.Expression, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%s: an expression has %d bytes, more than %d", at, len(text), maxText)
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "schema", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("%s: %q is not an expression: %s", at, text, diags[0].Detail)
	}
	return expr, nil
}
