package schema_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

type block = map[string]any

var spec = hcldec.ObjectSpec{
	"image":   &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true},
	"args":    &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"retries": &hcldec.AttrSpec{Name: "retries", Type: cty.Number},
	"tty":     &hcldec.AttrSpec{Name: "tty", Type: cty.Bool},
	"labels":  &hcldec.AttrSpec{Name: "labels", Type: cty.Map(cty.String)},
	"mount": &hcldec.BlockListSpec{TypeName: "mount", Nested: hcldec.ObjectSpec{
		"source":   &hcldec.AttrSpec{Name: "source", Type: cty.String, Required: true},
		"readonly": &hcldec.AttrSpec{Name: "readonly", Type: cty.Bool},
	}},
	"logging": &hcldec.BlockAttrsSpec{TypeName: "logging", ElementType: cty.String},
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want []string // parts of the faults, in any order; none means accepted
	}{
		"complete": {block{"image": "a", "args": []any{"x"}, "retries": 3, "tty": true, "labels": block{"a": "b"},
			"mount": []any{block{"source": "/a"}, block{"source": "/b", "readonly": true}}, "logging": block{"k": "v"}}, nil},
		"blocks before sending": {block{"image": "a", "mount": []block{{"source": "/a"}}}, nil},
		"converted":             {block{"image": 5, "retries": "3", "tty": "true"}, nil},
		"references": {block{"image": "${meta.i}", "args": "${meta.list}", "retries": "${NOMAD_COUNT}", "tty": "${x}",
			"labels": block{"${k}": "${v}"}, "mount": []any{block{"source": "${NOMAD_TASK_DIR}/a", "readonly": "${env.R}"}}}, nil},
		"template sequences": {block{"image": "%{if x}", "labels": block{"%{a": "$b"}}, nil},
		"unknown, near": {block{"image": "a", "retriez": 1},
			[]string{`config: "retriez": No argument or block type is named "retriez". Did you mean "retries"?`}},
		"unknown, far": {block{"image": "a", "zzz": 1}, []string{`"zzz": No argument or block type is named "zzz"`}},
		"unknown in a block": {block{"image": "a", "mount": []any{block{"source": "x", "read_only": true}}},
			[]string{`"mount": No argument or block type is named "read_only". Did you mean "readonly"?`}},
		"missing":            {block{}, []string{`config: The argument "image" is required`}},
		"missing in a block": {block{"image": "a", "mount": []any{block{}}}, []string{`"mount": The argument "source" is required`}},
		"wrong type": {block{"image": "a", "retries": "many"},
			[]string{`"retries": Inappropriate value for attribute "retries": a number is required`}},
		"not a list":        {block{"image": "a", "args": "x"}, []string{`"args": Inappropriate value`}},
		"not a block":       {block{"image": "a", "mount": "x"}, []string{`"mount": `}},
		"two":               {block{"image": "a", "imag": 1, "tty": "many"}, []string{`"imag": `, `"tty": `}},
		"cannot be encoded": {block{"image": func() {}}, []string{"image: json: unsupported type"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := schema.Check(tc.give, spec)
			if len(got) != len(tc.want) {
				t.Fatalf("Check() = %v, want %d faults", got, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i].String(), want) {
					t.Errorf("fault %q, want %q", got[i], want)
				}
			}
		})
	}
	many := block{"image": "a"}
	for _, c := range "abcdefghijklmnop" {
		many["x"+string(c)] = 1
	}
	if got := schema.Check(many, spec); len(got) != 8 {
		t.Errorf("Check() of 16 unknown arguments = %d faults, want 8", len(got))
	}
}

// TestSameDigest checks that the digest does not depend on the order of maps, and that a parsed
// schema has the same digest and checks alike.
func TestSameDigest(t *testing.T) {
	first, err := schema.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if again, err := schema.Of(spec); err != nil || again.Digest != first.Digest {
			t.Fatalf("digest %s, %v, before %s", again.Digest, err, first.Digest)
		}
	}
	parsed, err := schema.Parse(first.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := schema.Of(parsed); err != nil || again.Digest != first.Digest {
		t.Errorf("digest of the parsed schema %s, %v, want %s", again.Digest, err, first.Digest)
	}
	if got := schema.Check(block{"image": "a", "argz": 1}, parsed); len(got) != 1 {
		t.Errorf("Check() with the parsed schema = %v, want one fault", got)
	}
}

func TestLimits(t *testing.T) {
	if _, err := schema.Parse(make([]byte, schema.MaxSize+1)); err == nil || !strings.Contains(err.Error(), "the limit is 262144") {
		t.Errorf("Parse() of a large schema = %v", err)
	}
	large := hcldec.ObjectSpec{}
	for i := range schema.MaxSize / 100 {
		name := "x" + strings.Repeat("y", 100) + strings.Repeat("z", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300))
		large[name] = &hcldec.AttrSpec{Name: name, Type: cty.String}
	}
	if _, err := schema.Of(large); err == nil || !strings.Contains(err.Error(), "the limit is 262144") {
		t.Errorf("Of() of a large schema = %v", err)
	}
	if _, err := schema.Parse([]byte{0xff}); err == nil {
		t.Error("Parse() of no message succeeds")
	}
	if _, err := schema.Of(hcldec.ObjectSpec{"x": &hcldec.BlockTupleSpec{TypeName: "x", Nested: hcldec.ObjectSpec{}}}); err == nil {
		t.Error("Of() of a schema that the protocol does not have succeeds")
	}
}

func TestSet(t *testing.T) {
	own, _ := schema.Of(spec)
	other, _ := schema.Of(hcldec.ObjectSpec{"other": &hcldec.AttrSpec{Name: "other", Type: cty.Bool}})
	set := schema.NewSet(map[string]*drivers.Kind{"x": {TaskSpec: spec}})
	if !set.Builtin(own.Digest) || set.Builtin(other.Digest) {
		t.Error("Builtin() does not separate the built-in schema")
	}
	none := func(string) []byte { return nil }
	if set.Spec(own.Digest, none) == nil {
		t.Error("the built-in schema is not known")
	}
	if set.Spec(other.Digest, none) != nil || set.Spec("", none) != nil {
		t.Error("a schema that is not stored is known")
	}
	reads := 0
	stored := func(digest string) []byte {
		if reads++; digest == other.Digest {
			return other.Raw
		}
		return []byte{0xff}
	}
	for range 3 {
		if spec := set.Spec(other.Digest, stored); spec == nil || len(schema.Check(block{"other": true}, spec)) > 0 {
			t.Error("the stored schema is not known")
		}
		if set.Spec("bad", stored) != nil {
			t.Error("an invalid schema is known")
		}
	}
	for range 2 {
		for digest, field := range map[string]string{own.Digest: "other", other.Digest: "image"} {
			got, known := set.Faults(digest, block{"image": "a", "other": true}, stored)
			if !known || len(got) != 1 || got[0].Field != field {
				t.Errorf("Faults() = %v, %t, want one fault of the field %s", got, known, field)
			}
		}
	}
	if _, known := set.Faults("absent", block{}, none); known {
		t.Error("Faults() with a schema that is not stored is known")
	}
	if reads != 2 {
		t.Errorf("two schemas were read %d times", reads)
	}
}

func BenchmarkFaults(b *testing.B) {
	own, _ := schema.Of(spec)
	set := schema.NewSet(map[string]*drivers.Kind{"x": {TaskSpec: spec}})
	give := block{"image": "a", "args": []any{"x", "${y}"}, "mount": []any{block{"source": "/a"}}}
	for b.Loop() {
		set.Faults(own.Digest, give, nil)
	}
}

func BenchmarkCheck(b *testing.B) {
	give := block{"image": "a", "args": []any{"x", "${y}"}, "mount": []any{block{"source": "/a"}}}
	for b.Loop() {
		schema.Check(give, spec)
	}
}
