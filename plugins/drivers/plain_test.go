package drivers_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// everySpec has what the shorter way knows, and a block that it leaves to hcldec.
var everySpec = hcldec.ObjectSpec{
	"command": &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":    &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"ports":   &hcldec.AttrSpec{Name: "ports", Type: cty.List(cty.Number)},
	"count":   &hcldec.AttrSpec{Name: "count", Type: cty.Number},
	"tty":     &hcldec.AttrSpec{Name: "tty", Type: cty.Bool},
	"twin":    &hcldec.AttrSpec{Name: "command", Type: cty.String},
	"labels":  &hcldec.AttrSpec{Name: "labels", Type: cty.Map(cty.String)},
	"ulimit":  &hcldec.BlockAttrsSpec{TypeName: "ulimit", ElementType: cty.String},
	"network": &hcldec.BlockSpec{TypeName: "network", Nested: hcldec.ObjectSpec{
		"bind": &hcldec.AttrSpec{Name: "bind", Type: cty.List(cty.Number)},
	}},
}

// plainSpec is everySpec without what keeps every block from the shorter way.
func plainSpec() hcldec.ObjectSpec {
	out := hcldec.ObjectSpec{}
	for k, s := range everySpec {
		if k != "labels" {
			out[k] = s
		}
	}
	return out
}

// TestDecodePlain holds that the shorter way gives what hcldec does, and that it takes
// the blocks that it is for.
func TestDecodePlain(t *testing.T) {
	type block = map[string]any
	for name, tc := range map[string]struct {
		give  block
		short bool
	}{
		"words":            {block{"command": "é${x}%{y}\x00", "args": []any{"-a", ""}}, true},
		"typed list":       {block{"command": "x", "args": []string{"a"}}, true},
		"empty lists":      {block{"command": "x", "args": []any{}, "ports": []string{}}, true},
		"numbers":          {block{"command": "x", "count": 7.0, "ports": []any{1, int64(-2), 3.0, math.MaxInt64}}, true},
		"number of a word": {block{"command": "x", "count": "7", "tty": "true", "ports": []any{"80"}}, true},
		"word of a number": {block{"command": 7, "args": []any{true, -1.0, 1 << 60}}, true},
		"decomposed":       {block{"command": "e\u0301"}, true},
		"fraction":         {block{"command": 0.1, "count": 0.1}, false},
		"large":            {block{"command": "x", "count": 1e300}, false},
		"minus zero":       {block{"command": math.Copysign(0, -1)}, false},
		"bad text":         {block{"command": "a\xff", "args": []any{"\xff"}}, false},
		"null":             {block{"command": "x", "count": nil}, false},
		"null in a list":   {block{"command": "x", "args": []any{nil}}, false},
		"unsigned":         {block{"command": "x", "count": uint64(math.MaxUint64)}, false},
		"block":            {block{"command": "x", "network": block{"bind": []any{1}}}, false},
		"empty block":      {block{"command": "x", "ulimit": block{}}, false},
		"nothing":          {nil, false},
		"unknown":          {block{"command": "x", "comand": "y"}, false},
		"not a number":     {block{"command": "x", "count": "many"}, false},
		"not a list":       {block{"command": "x", "args": "a"}, false},
		"list in a list":   {block{"command": "x", "args": []any{[]any{"a"}}}, false},
		"no word":          {block{"command": []any{"x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, short := drivers.DecodePlain(tc.give, plainSpec())
			if short != tc.short {
				t.Errorf("taken by the shorter way: %v, want %v", short, tc.short)
			}
			alike(t, tc.give, plainSpec())
			alike(t, tc.give, everySpec)
		})
	}
}

// alike compares what Decode says of a block with what hcldec does.
func alike(t *testing.T, block map[string]any, spec hcldec.Spec) {
	t.Helper()
	got, err := drivers.Decode(block, spec)
	want, fault := drivers.DecodeByText(block, spec)
	if (err == nil) != (fault == nil) || err != nil && err.Error() != fault.Error() {
		t.Fatalf("Decode() = %v, by text %v", err, fault)
	}
	if err == nil && !got.RawEquals(want) {
		t.Errorf("Decode() = %#v, by text %#v", got, want)
	}
}

// FuzzDecodePlain gives both ways what jobs may hold.
func FuzzDecodePlain(f *testing.F) {
	for _, seed := range []string{
		`{"command":"x","args":["a",1,true],"ports":[1,"2"],"count":"0x1","tty":"1"}`,
		`{"command":null,"count":-0,"tty":false,"args":[null]}`, `{"command":1e3,"count":"1e3","ports":[9007199254740993]}`,
		`{"command":true,"count":true,"ulimit":{"a":1},"network":[{}]}`, `{"//":"a","command":"\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var block map[string]any
		if json.Unmarshal(raw, &block) == nil {
			alike(t, block, plainSpec())
		}
	})
}

// BenchmarkDecode is the config block of most tasks: each start decodes it, on the server
// and on the node.
func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := drivers.Decode(map[string]any{"command": "/bin/date", "args": []any{"+%s%N"}}, plainSpec()); err != nil {
			b.Fatal(err)
		}
	}
}
