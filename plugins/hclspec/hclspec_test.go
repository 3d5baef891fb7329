package hclspec_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// every has each kind of schema that the protocol has.
var every = hcldec.ObjectSpec{
	"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true},
	"args":  &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"any":   &hcldec.AttrSpec{Name: "any", Type: cty.DynamicPseudoType},
	"shape": &hcldec.AttrSpec{Name: "shape",
		Type: cty.Object(map[string]cty.Type{"a": cty.Number, "b": cty.Tuple([]cty.Type{cty.Bool, cty.Set(cty.String)})})},
	"retries": &hcldec.DefaultSpec{Primary: &hcldec.AttrSpec{Name: "retries", Type: cty.Number},
		Default: &hcldec.LiteralSpec{Value: cty.NumberIntVal(3)}},
	"logging": &hcldec.BlockSpec{TypeName: "logging", Nested: hcldec.ObjectSpec{
		"type":   &hcldec.AttrSpec{Name: "type", Type: cty.String},
		"config": &hcldec.BlockAttrsSpec{TypeName: "config", ElementType: cty.String},
	}},
	"mount": &hcldec.BlockListSpec{TypeName: "mount", MinItems: 1, MaxItems: 3,
		Nested: hcldec.ObjectSpec{"source": &hcldec.AttrSpec{Name: "source", Type: cty.String}}},
	"device": &hcldec.BlockSetSpec{TypeName: "device", Nested: hcldec.ObjectSpec{"path": &hcldec.AttrSpec{Name: "path", Type: cty.String}}},
	"auth": &hcldec.BlockMapSpec{TypeName: "auth", LabelNames: []string{"host"},
		Nested: hcldec.ObjectSpec{"user": &hcldec.AttrSpec{Name: "user", Type: cty.String}}},
	"pair": hcldec.TupleSpec{&hcldec.LiteralSpec{Value: cty.StringVal("a\n${x}")}, &hcldec.AttrSpec{Name: "second", Type: cty.Map(cty.Bool)}},
}

func TestRoundTrip(t *testing.T) {
	wire, err := hclspec.Encode(every)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protobuf.Marshal(wire)
	if err != nil {
		t.Fatal(err)
	}
	read := &proto.Spec{}
	if err := protobuf.Unmarshal(raw, read); err != nil {
		t.Fatal(err)
	}
	back, err := hclspec.Decode(read)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hcldec.ImpliedType(back), hcldec.ImpliedType(every); !got.Equals(want) {
		t.Errorf("type = %#v, want %#v", got, want)
	}
	block := map[string]any{"image": "x", "args": []any{"a"}, "any": 7, "mount": []any{map[string]any{"source": "/"}},
		"logging": map[string]any{"type": "j", "config": map[string]any{"k": "v"}}, "second": map[string]any{"k": true},
		"auth": map[string]any{"h": map[string]any{"user": "u"}}}
	want, err := drivers.Decode(block, every)
	if err != nil {
		t.Fatal(err)
	}
	got, err := drivers.Decode(block, back)
	if err != nil || !got.RawEquals(want) {
		t.Errorf("decoded %#v, %v, want %#v", got, err, want)
	}
	for name, bad := range map[string]map[string]any{
		"no image":    {"mount": []any{map[string]any{}}},
		"no mount":    {"image": "x"},
		"many mounts": {"image": "x", "mount": []any{map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}}},
	} {
		if _, err := drivers.Decode(bad, back); err == nil {
			t.Errorf("%s: decoded, want an error", name)
		}
	}
}

func TestEncodeUnknownKind(t *testing.T) {
	_, err := hclspec.Encode(hcldec.ObjectSpec{"x": &hcldec.BlockTupleSpec{TypeName: "x", Nested: hcldec.ObjectSpec{}}})
	if err == nil || !strings.Contains(err.Error(), "BlockTupleSpec") {
		t.Errorf("Encode() = %v, want an error that names the kind", err)
	}
}

func attr(name, typ string) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Attr{Attr: &proto.Attr{Name: name, Type: typ}}}
}

func object(attributes map[string]*proto.Spec) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: attributes}}}
}

func lit(text string) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Literal{Literal: &proto.Literal{Value: text}}}
}

func TestDecode(t *testing.T) {
	// A name that is not set is the key in the object.
	spec, err := hclspec.Decode(object(map[string]*proto.Spec{"command": attr("", "string"), "n": lit(`max(length(["a"]), abs(-7))`)}))
	if err != nil {
		t.Fatal(err)
	}
	val, err := drivers.Decode(map[string]any{"command": "x"}, spec)
	if err != nil || val.GetAttr("command").AsString() != "x" || !val.GetAttr("n").RawEquals(cty.NumberIntVal(7)) {
		t.Errorf("decoded %#v, %v", val, err)
	}
	if spec, err := hclspec.Decode(nil); err != nil || len(spec) != 0 {
		t.Errorf("Decode(nil) = %v, %v, want no attributes", spec, err)
	}
}

func TestDecodeFaults(t *testing.T) {
	deep := attr("x", "string")
	for range 40 {
		deep = object(map[string]*proto.Spec{"x": deep})
	}
	wide := map[string]*proto.Spec{}
	for i := range 10_001 {
		wide["x"+strings.Repeat("y", i%100)+string(rune('a'+i/4000))+strings.Repeat("z", i/100%40)] = attr("", "string")
	}
	block := func(b *proto.BlockMap) *proto.Spec { return &proto.Spec{Block: &proto.Spec_BlockMap{BlockMap: b}} }
	list := func(low, high uint64) *proto.Spec {
		return &proto.Spec{Block: &proto.Spec_BlockList{BlockList: &proto.BlockList{Name: "l", MinItems: low, MaxItems: high,
			Nested: object(nil)}}}
	}
	for name, tc := range map[string]struct {
		spec *proto.Spec
		want string
	}{
		"not an object": {attr("x", "string"), "is not an object"},
		"too deep":      {deep, "nested more than 32 times"},
		"too wide":      {object(wide), "more than 10000 parts"},
		"unknown kind":  {object(map[string]*proto.Spec{"x": {}}), "schema.x: is empty, or of an unknown kind"},
		"no type":       {object(map[string]*proto.Spec{"x": attr("", "")}), "schema.x: \"\" is not an expression"},
		"no such type":  {object(map[string]*proto.Spec{"x": attr("", "list(text)")}), `schema.x: "list(text)" is not a type`},
		"not a name":    {object(map[string]*proto.Spec{"x": attr("a b", "string")}), `schema.x: "a b" is not a name`},
		"no value":      {object(map[string]*proto.Spec{"x": lit("env.HOME")}), `the literal "env.HOME" has no value`},
		"a file":        {object(map[string]*proto.Spec{"x": lit(`file("/etc/shadow")`)}), "has no value"},
		"long literal":  {object(map[string]*proto.Spec{"x": lit(strings.Repeat(" ", 20_000) + "1")}), "more than 16384"},
		"no labels":     {object(map[string]*proto.Spec{"x": block(&proto.BlockMap{Nested: object(nil)})}), "has no labels"},
		"any in a map": {object(map[string]*proto.Spec{"x": block(&proto.BlockMap{Labels: []string{"l"},
			Nested: object(map[string]*proto.Spec{"a": attr("", "any")})})}), "type any"},
		"no nested":      {object(map[string]*proto.Spec{"x": block(&proto.BlockMap{Labels: []string{"l"}})}), "is empty"},
		"no range":       {object(map[string]*proto.Spec{"x": list(2, 1)}), "2 to 1 items"},
		"too many items": {object(map[string]*proto.Spec{"x": list(0, 1<<63)}), "not a range"},
		"half a default": {object(map[string]*proto.Spec{"x": {Block: &proto.Spec_Default{Default: &proto.Default{Primary: attr("",
			"string")}}}}), "schema.x: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hclspec.Decode(tc.spec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// FuzzDecode decodes any message as a schema, and an empty block with the result. Neither may panic.
func FuzzDecode(f *testing.F) {
	wire, err := hclspec.Encode(every)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := protobuf.Marshal(wire)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &proto.Spec{}
		if protobuf.Unmarshal(raw, s) != nil {
			return
		}
		spec, err := hclspec.Decode(s)
		if err != nil {
			return
		}
		hcldec.ImpliedType(spec)
		drivers.Decode(map[string]any{"image": "x", "args": []any{"a"}}, spec) //nolint:errcheck // only a panic is wrong
	})
}
