package render_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/render"
)

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	w := render.NewWriter(&buf)
	for _, err := range []error{
		w.Content(3, []byte("hello")), w.Content(4, nil), w.Message(render.KindPass, render.Pass{Complete: true, Live: []int{3}}),
		w.Message(render.KindDone, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := render.NewReader(&buf)
	next := func() *render.Frame {
		t.Helper()
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := next()
	if text, err := io.ReadAll(f.Body()); f.Kind != render.KindContent || f.Template != 3 || f.Size != 5 || string(text) != "hello" ||
		err != nil {
		t.Errorf("frame %+v with %q, %v", f, text, err)
	}
	if f = next(); f.Template != 4 || f.Size != 0 {
		t.Errorf("frame %+v, want empty content", f)
	}
	var pass render.Pass
	if err := next().Decode(&pass); err != nil || !pass.Complete || fmt.Sprint(pass.Live) != "[3]" {
		t.Errorf("pass %+v, %v", pass, err)
	}
	if f = next(); f.Kind != render.KindDone {
		t.Errorf("frame %+v, want the last one", f)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("Next() = %v, want EOF", err)
	}
}

// A body that is not read is skipped.
func TestSkippedFrame(t *testing.T) {
	var buf bytes.Buffer
	w := render.NewWriter(&buf)
	if err := errors.Join(w.Content(0, make([]byte, 100000)), w.Message(render.KindDone, nil)); err != nil {
		t.Fatal(err)
	}
	r := render.NewReader(&buf)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Next(); err != nil || f.Kind != render.KindDone {
		t.Errorf("Next() = %+v, %v", f, err)
	}
}

// The reader trusts no program.
func TestHostileFrames(t *testing.T) {
	head := func(kind byte, size uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kind}, size) }
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"unknown kind":   {head(9, 0), "unknown kind"},
		"kind 0":         {head(0, 0), "unknown kind"},
		"large message":  {head(3, render.MaxMessage+1), "65537 bytes"},
		"large content":  {head(1, render.MaxContent+5), "bytes"},
		"largest size":   {head(1, 1<<32-1), "bytes"},
		"no index":       {head(1, 3), "bytes"},
		"half a header":  {[]byte{1, 0}, "unexpected EOF"},
		"half an index":  {append(head(1, 4), 1), "EOF"},
		"missing body":   {append(head(1, 8), 0, 0, 0, 1), "unexpected EOF"},
		"malformed":      {append(head(3, 3), "{x}"...), "malformed"},
		"half a message": {append(head(3, 30), "{}"...), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render.NewReader(bytes.NewReader(c.stream))
			f, err := r.Next()
			if err == nil && f.Kind != render.KindContent {
				err = f.Decode(&render.Missing{})
			}
			if err == nil {
				_, err = r.Next()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckText(t *testing.T) {
	for text, want := range map[string]string{
		`{{ env "X" }} {{ with nomadVar "a" }}{{ .b }}{{ end }} {{ nosuch 1 }}`:       "",
		`{{ define "a" }}{{ . }}{{ end }}{{ executeTemplate "a" (printf "%s" "x") }}`: "",
		`{{ define "a" }}{{ plugin "x" }}{{ end }}{{ executeTemplate "a" }}`:          "the function plugin is refused",
		`{{ define "a" }}x{{ end }}{{ executeTemplate "a" (secret "y") }}`:            "",
		"{{ if":                  "1: unclosed action",
		"a\n{{ $x }}":            "undefined variable",
		"\n\n{{ plugin \"x\" }}": "line 3: the function plugin is refused",
		`{{ if true }}{{ else }}{{ range loop 3 }}{{ with 1 }}{{ "x" | printf "%s" (plugin "y") }}{{ end }}{{ end }}{{ end }}`: "plugin",
		"{{ define \"a\" }}\n{{ writeToFile }}{{ end }}{{ template \"a\" }}":                                                   "line 2: the function writeToFile",
		`{{ template "a" (pkiCert "x") }}`:                     "",
		`{{ (nodes "x").y.z }}`:                                "",
		`{{ key "x" }}{{ range service "x" }}{{ end }}`:        "",
		`{{ range nomadService "x" }}{{ end }}`:                "",
		`{{ block "x" (sockaddr "y") }}{{ end }}`:              "sockaddr",
		`{{ $x := file "a" }}{{ $x = getHostByName "a" }}`:     "getHostByName",
		strings.Repeat("{{ 1 }}", 20001):                       "20001 actions",
		"{{" + strings.Repeat("(", 1<<20) + "}}":               "depth",
		strings.Repeat("{{ if 1 }}", 20000):                    "unexpected EOF",
		`{{/* plugin */}} plugin {{ "plugin" }} {{ .plugin }}`: "",
	} {
		err := render.CheckText(text, "", "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("CheckText(%.40q) = %v, want %q", text, err, want)
		}
	}
	if err := render.CheckText("{{ plugin }} [[ plugin ]]", "[[", "]]"); err == nil {
		t.Error("CheckText() with other delimiters = nil")
	}
	if err := render.CheckText("{{ plugin }}", "[[", "]]"); err != nil {
		t.Errorf("CheckText() = %v, want nil: the text has no action", err)
	}
}

// TestCheckNative checks the functions that need Consul.
func TestCheckNative(t *testing.T) {
	for text, want := range map[string]string{
		`{{ key "x" }}{{ range service "x" }}{{ end }}{{ datacenters }}{{ plugin }}`: "",
		`{{ (nodes "x").y.z }}`:                              "line 1: the function nodes is refused: the identity of a task may not read nodes",
		"\n{{ range connect \"x\" }}{{ end }}":               "line 2: the function connect is refused: it belongs to Consul Connect",
		`{{ with caLeaf "x" }}{{ .PrivateKeyPEM }}{{ end }}`: "the client needs a consul block",
		`{{ define "a" }}{{ peerings }}{{ end }}`:            "partitions and peers",
	} {
		err := render.CheckNative(text, "", "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("CheckNative(%.40q) = %v, want %q", text, err, want)
		}
	}
}

// TestCheckVault checks the functions that need the vault block of a task.
func TestCheckVault(t *testing.T) {
	for text, want := range map[string]string{
		`{{ key "x" }}{{ plugin }}{{ "secret" }}`:    "",
		"\n{{ with secret \"x\" }}{{ end }}":         "line 2: the function secret is refused: the task has no vault block",
		`{{ range secrets "x" }}{{ end }}`:           "the function secrets is refused",
		`{{ define "a" }}{{ pkiCert "x" }}{{ end }}`: "the function pkiCert is refused",
	} {
		err := render.CheckVault(text, "", "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("CheckVault(%.40q) = %v, want %q", text, err, want)
		}
	}
}

func TestTokenCannotBePrinted(t *testing.T) {
	req := &render.Request{Token: "s3cret"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, req); strings.Contains(text, "s3cret") {
			t.Errorf("%s prints the token", verb)
		}
	}
}
