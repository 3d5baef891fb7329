package variable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text, format, want, fault string
	}{
		"json": {`{"Namespace":"n","Path":"a/b","ModifyIndex":7,"Items":{"k":"v"}}`, "json", `n a/b 7 map[k:v]`, ""},
		"hcl": {"namespace = \"n\"\npath = \"a/b\"\nmodify_index = 7\ncreate_index = 3\nitems {\n k = \"v\"\n n = 5\n b = true\n}",
			"hcl", `n a/b 7 map[b:true k:v n:5]`, ""},
		"hcl map":      {`path = "a"` + "\n" + `items = { "a b" = "c" }`, "hcl", ` a 0 map[a b:c]`, ""},
		"text stays":   {`items { k = "${a}" }`, "hcl", `  0 map[k:${a}]`, ""},
		"no items":     {`{"Path":"a"}`, "json", ` a 0 map[]`, ""},
		"unknown":      {`{"Path":"a","Itmes":{}}`, "json", "", "Itmes"},
		"unknown hcl":  {`itmes { a = "b" }`, "hcl", "", "itmes"},
		"not json":     {`path = "a"`, "json", "", "as JSON"},
		"not hcl":      {`items {`, "hcl", "", "as HCL"},
		"nested":       {`items { k { a = "b" } }`, "hcl", "", "items.k"},
		"path is none": {`path = 5`, "hcl", "", "path: expected a string"},
		"format":       {``, "yaml", "", `"yaml"`},
		"bad lock":     {`lock { tl = "5s" }`, "hcl", "", "lock.tl"},
	} {
		v, err := parse([]byte(c.text), c.format)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if got := shown(v); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	}
}

// shown formats a variable in one line.
func shown(v *api.Variable) string {
	return strings.ReplaceAll(fmt.Sprintf("%s %s %d %v", v.Namespace, v.Path, v.ModifyIndex, v.Items), "\n", `\n`)
}

// A variable that is written as HCL and parsed again is equal.
func TestHCLReadsBack(t *testing.T) {
	v := &api.Variable{Namespace: "n", Path: "a/b", ModifyIndex: 7,
		Items: api.VariableItems{"k": "v", "two words": "a \"quoted\"\nline", "path": `c:\x`}}
	back, err := parse([]byte(asHCL(v)), "hcl")
	if err != nil {
		t.Fatalf("%v in\n%s", err, asHCL(v))
	}
	if shown(back) != shown(v) {
		t.Errorf("%s became %s", shown(v), shown(back))
	}
	for name, example := range map[string]string{"hcl": exampleHCL, "json": exampleJSON} {
		if v, err := parse([]byte(example), name); err != nil || v.Path != "nomad/jobs/example" || v.Items["user"] != "example" {
			t.Errorf("the example in %s is %+v, %v", name, v, err)
		}
	}
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	spec, hclSpec, value := write("s.json", `{"Path":"of/spec","Items":{"a":"1"}}`), write("s.hcl", `items { a = "2" }`),
		write("value", "secret\n")
	for name, c := range map[string]struct {
		args        []string
		stdin, want string
		fault       string
	}{
		"items":          {[]string{"p", "a=1", "b=x=y"}, "", " p 0 map[a:1 b:x=y]", ""},
		"slashes":        {[]string{"/p/q/", "a=1"}, "", " p/q 0 map[a:1]", ""},
		"spec":           {[]string{spec}, "", " of/spec 0 map[a:1]", ""},
		"spec and items": {[]string{spec, "a=3", "b=4"}, "", " of/spec 0 map[a:3 b:4]", ""},
		"path and spec":  {[]string{"p", spec}, "", " p 0 map[a:1]", ""},
		"path and hcl":   {[]string{"p", hclSpec}, "", " p 0 map[a:2]", ""},
		"standard input": {[]string{"-"}, `{"Path":"in"}`, " in 0 map[]", ""},
		"value of file":  {[]string{"p", "a=" + value}, "", ` p 0 map[a:secret\n]`, ""},
		"value of input": {[]string{"p", "a=-"}, "typed", " p 0 map[a:typed]", ""},
		"escaped":        {[]string{"p", `a=\@x`, `b=\-`}, "", " p 0 map[a:@x b:-]", ""},
		"no path":        {[]string{hclSpec}, "", "", "no path"},
		"no value":       {[]string{"p", "a"}, "", "", `"a"`},
		"no name":        {[]string{"p", "=a"}, "", "", "name=value"},
		"input twice":    {[]string{"p", "a=-", "b=-"}, "x", "", "Only one item"},
		"no file":        {[]string{"p", "a=@" + dir + "/none"}, "", "", "none"},
		"no spec":        {[]string{"@" + dir + "/none"}, "", "", "none"},
	} {
		e := &term.Env{In: strings.NewReader(c.stdin)}
		v, rest, err := specification(e, c.args, "")
		if err == nil {
			err = addItems(e, rest, v.Items)
		}
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case shown(v) != c.want:
			t.Errorf("%s: %s, want %s", name, shown(v), c.want)
		}
	}
}
