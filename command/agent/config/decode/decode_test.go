package decode

import (
	"reflect"
	"strings"
	"testing"
)

type conf struct {
	Name  string           `hcl:"name" default:"n"`
	Ports ports            `hcl:"ports"`
	Key   map[string]*open `hcl:"key,label"`
}

type ports struct {
	HTTP int `hcl:"http" default:"80"`
	RPC  int `hcl:"rpc"`
}

type open struct {
	Active bool `hcl:"active"`
	label  string
	keys   map[string]string
}

func (o *open) SetLabel(label string) { o.label = label }

func (o *open) SetKey(key, text string) {
	if o.keys == nil {
		o.keys = map[string]string{}
	}
	o.keys[key] = text
}

// A file keeps the values of keys that it does not set.
func TestFilesMerge(t *testing.T) {
	var got conf
	block := reflect.ValueOf(&got).Elem()
	SetDefaults(block)
	set := map[string]Place{}
	for _, f := range []struct{ name, text string }{
		{"a.hcl", "ports { rpc = 1 }\nkey \"k\" {\n  active = true\n  other = \"x\"\n}"},
		{"b.json", `{"ports": {"rpc": 2}}`},
	} {
		if err := File([]byte(f.text), f.name, block, set); err != nil {
			t.Fatal(err)
		}
	}
	want := conf{Name: "n", Ports: ports{HTTP: 80, RPC: 2},
		Key: map[string]*open{"k": {Active: true, label: "k", keys: map[string]string{"other": "x"}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	if at := set["ports.rpc"]; at.File != "b.json" || at.Line != 1 {
		t.Errorf("ports.rpc was set at %v, want line 1 of b.json", at)
	}
}

func TestErrorsOmitValues(t *testing.T) {
	var got conf
	err := File([]byte("nome = \"s3cret\"\nkey \"k\" { other = [\"s3cret\"] }"), "a.hcl", reflect.ValueOf(&got).Elem(), map[string]Place{})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("File() = %v, want an error without the values", err)
	}
	for _, want := range []string{`a.hcl:1,1: unknown key "nome"`, `did you mean "name"?`,
		"a.hcl:2,19: key.k.other: expected a string, got a list"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("File() = %v, want %q in it", err, want)
		}
	}
}
