package hclspec

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/proto"
)

// Encode returns the wire form of a schema. A kind of schema that the protocol does not have is an
// error.
func Encode(spec hcldec.Spec) (*proto.Spec, error) {
	switch s := spec.(type) {
	case hcldec.ObjectSpec:
		return encodeObject(s)
	case hcldec.TupleSpec:
		return encodeArray(s)
	case *hcldec.AttrSpec:
		return &proto.Spec{Block: &proto.Spec_Attr{Attr: &proto.Attr{Name: s.Name, Type: typeexpr.TypeString(s.Type), Required: s.Required}}}, nil
	case *hcldec.BlockAttrsSpec:
		return &proto.Spec{Block: &proto.Spec_BlockAttrs{BlockAttrs: &proto.BlockAttrs{
			Name: s.TypeName, Type: typeexpr.TypeString(s.ElementType), Required: s.Required}}}, nil
	case *hcldec.DefaultSpec:
		return encodeDefault(s)
	case *hcldec.LiteralSpec:
		return encodeLiteral(s.Value)
	}
	return encodeBlock(spec)
}

func encodeBlock(spec hcldec.Spec) (*proto.Spec, error) {
	switch s := spec.(type) {
	case *hcldec.BlockSpec:
		nested, err := Encode(s.Nested)
		return &proto.Spec{Block: &proto.Spec_BlockValue{BlockValue: &proto.Block{Name: s.TypeName, Required: s.Required, Nested: nested}}}, err
	case *hcldec.BlockListSpec:
		nested, err := Encode(s.Nested)
		return &proto.Spec{Block: &proto.Spec_BlockList{BlockList: &proto.BlockList{
			Name: s.TypeName, MinItems: uint64(s.MinItems), MaxItems: uint64(s.MaxItems), Nested: nested}}}, err
	case *hcldec.BlockSetSpec:
		nested, err := Encode(s.Nested)
		return &proto.Spec{Block: &proto.Spec_BlockSet{BlockSet: &proto.BlockSet{
			Name: s.TypeName, MinItems: uint64(s.MinItems), MaxItems: uint64(s.MaxItems), Nested: nested}}}, err
	case *hcldec.BlockMapSpec:
		nested, err := Encode(s.Nested)
		return &proto.Spec{Block: &proto.Spec_BlockMap{BlockMap: &proto.BlockMap{Name: s.TypeName, Labels: s.LabelNames, Nested: nested}}}, err
	}
	return nil, fmt.Errorf("schema: the plugin protocol has no %T", spec)
}

func encodeObject(o hcldec.ObjectSpec) (*proto.Spec, error) {
	out := map[string]*proto.Spec{}
	for name, s := range o {
		inner, err := Encode(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = inner
	}
	return &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: out}}}, nil
}

func encodeArray(list hcldec.TupleSpec) (*proto.Spec, error) {
	var out []*proto.Spec
	for i, s := range list {
		inner, err := Encode(s)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out = append(out, inner)
	}
	return &proto.Spec{Block: &proto.Spec_Array{Array: &proto.Array{Values: out}}}, nil
}

func encodeDefault(s *hcldec.DefaultSpec) (*proto.Spec, error) {
	primary, err := Encode(s.Primary)
	if err != nil {
		return nil, err
	}
	second, err := Encode(s.Default)
	return &proto.Spec{Block: &proto.Spec_Default{Default: &proto.Default{Primary: primary, Default: second}}}, err
}

func encodeLiteral(val cty.Value) (*proto.Spec, error) {
	if !val.IsWhollyKnown() || val.IsMarked() {
		return nil, fmt.Errorf("schema: a literal of type %s has no constant value", val.Type().FriendlyName())
	}
	text := string(hclwrite.TokensForValue(val).Bytes())
	return &proto.Spec{Block: &proto.Spec_Literal{Literal: &proto.Literal{Value: text}}}, nil
}
