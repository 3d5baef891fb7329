package drivers_test

import (
	"math"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// everySpec has each kind of field that drivers use.
var everySpec = hcldec.ObjectSpec{
	"command": &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":    &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"ports":   &hcldec.AttrSpec{Name: "ports", Type: cty.List(cty.Number)},
	"count":   &hcldec.AttrSpec{Name: "count", Type: cty.Number},
	"tty":     &hcldec.AttrSpec{Name: "tty", Type: cty.Bool},
	"labels":  &hcldec.AttrSpec{Name: "labels", Type: cty.Map(cty.String)},
	"ulimit":  &hcldec.BlockAttrsSpec{TypeName: "ulimit", ElementType: cty.String},
	"network": &hcldec.BlockSpec{TypeName: "network", Nested: hcldec.ObjectSpec{
		"bind": &hcldec.AttrSpec{Name: "bind", Type: cty.List(cty.Number)},
	}},
}

type block = map[string]any

// TestDecode checks values as jobs and API callers give them.
func TestDecode(t *testing.T) {
	str, num := cty.StringVal, cty.NumberIntVal
	for name, tc := range map[string]struct {
		give  block
		field string
		want  cty.Value
	}{
		"literal string": {block{"command": "é${x}%{y}\x00"}, "command", str("é${x}%{y}\x00")},
		"list":           {block{"command": "x", "args": []any{"-a", ""}}, "args", cty.ListVal([]cty.Value{str("-a"), str("")})},
		"typed list":     {block{"command": "x", "args": []string{"a"}}, "args", cty.ListVal([]cty.Value{str("a")})},
		"empty list":     {block{"command": "x", "args": []any{}}, "args", cty.ListValEmpty(cty.String)},
		"number":         {block{"command": "x", "count": 7.0}, "count", num(7)},
		"numbers": {block{"command": "x", "ports": []any{1, int64(-2), 3.0, math.MaxInt64}}, "ports",
			cty.ListVal([]cty.Value{num(1), num(-2), num(3), num(math.MaxInt64)})},
		"number of string": {block{"command": "x", "count": "7"}, "count", num(7)},
		"bool of string":   {block{"command": "x", "tty": "true"}, "tty", cty.True},
		"string of number": {block{"command": 7}, "command", str("7")},
		"strings of other": {block{"command": "x", "args": []any{true, -1.0, 1 << 60}}, "args",
			cty.ListVal([]cty.Value{str("true"), str("-1"), str("1152921504606846976")})},
		"composed text": {block{"command": "e\u0301"}, "command", str("\u00e9")},
		"fraction":      {block{"command": 0.1}, "command", str("0.1")},
		"null":          {block{"command": "x", "count": nil}, "count", cty.NullVal(cty.Number)},
		"left out":      {block{"command": "x"}, "tty", cty.NullVal(cty.Bool)},
		"map":           {block{"command": "x", "labels": block{"a": "b"}}, "labels", cty.MapVal(map[string]cty.Value{"a": str("b")})},
		"attributes":    {block{"command": "x", "ulimit": block{"a": 1}}, "ulimit", cty.MapVal(map[string]cty.Value{"a": str("1")})},
		"nested": {block{"command": "x", "network": block{"bind": []any{1}}}, "network",
			cty.ObjectVal(map[string]cty.Value{"bind": cty.ListVal([]cty.Value{num(1)})})},
		"nested left out": {block{"command": "x"}, "network", cty.NullVal(cty.Object(map[string]cty.Type{"bind": cty.List(cty.Number)}))},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := drivers.Decode(tc.give, everySpec)
			if err != nil {
				t.Fatal(err)
			}
			if v := got.GetAttr(tc.field); !v.RawEquals(tc.want) {
				t.Errorf("Decode().%s = %#v, want %#v", tc.field, v, tc.want)
			}
		})
	}
}

func TestDecodeFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want string
	}{
		"nothing":        {nil, `"command" is required`},
		"unknown":        {block{"command": "x", "comand": "y"}, `unknown argument "comand" in config; expected one of: args, command`},
		"not a number":   {block{"command": "x", "count": "many"}, "a number is required"},
		"not a list":     {block{"command": "x", "args": "a"}, "list of string required"},
		"list in a list": {block{"command": "x", "args": []any{[]any{"a"}}}, "string required"},
		"not a string":   {block{"command": []any{"x"}}, "string required"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := drivers.Decode(tc.give, everySpec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode() = %#v, %v, want an error with %q", v, err, tc.want)
			}
		})
	}
}

// BenchmarkDecode decodes a typical config block. Each start decodes it on the server and on the
// node.
func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := drivers.Decode(block{"command": "/bin/date", "args": []any{"+%s%N"}}, everySpec); err != nil {
			b.Fatal(err)
		}
	}
}
