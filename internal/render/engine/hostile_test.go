package engine_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
)

// failing runs a template that must end the program with an error, and returns the error.
func failing(t *testing.T, req *render.Request) render.Fatal {
	t.Helper()
	p := start(t, req)
	p.ended()
	if p.fatal == nil {
		t.Fatalf("no error: contents %.200v, frames %v", p.contents, p.kinds)
	}
	return *p.fatal
}

// Every refused function is refused in all positions, whatever its arguments are.
func TestRefusedFunctions(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	for _, name := range slices.Sorted(maps.Keys(render.RefusedFunctions())) {
		for form, text := range map[string]string{
			"plain":                   "\n{{ %s }}",
			"argument":                "\n{{ %s \"x\" 1 }}",
			"piped":                   "\n{{ \"x\" | toUpper | %s }}",
			"nested":                  "\n{{ printf \"%%v\" (printf \"%%v\" (%s \"x\")) }}",
			"in a loop over a define": "\n{{ define \"d\" }}{{ %s . }}{{ end }}{{ range loop 1 }}{{ template \"d\" . }}{{ end }}",
		} {
			f := failing(t, w.request("fine", fmt.Sprintf(text, name)))
			if f.Template != 1 || f.Line != 2 || !strings.Contains(f.Text, name+": the function is refused") {
				t.Errorf("%s, %s: %+v, want the template, line 2 and the function", name, form, f)
			}
		}
	}
}

// executeTemplate renders the templates that the text defines. They cannot call more than the text itself, and the limits
// of an evaluation hold for all of them together.
func TestExecuteTemplate(t *testing.T) {
	w := newWorld(t)
	p := start(t, w.request(`{{ define "row" }}<{{ . }}>{{ end }}{{ define "all" }}{{ range . }}{{ executeTemplate "row" . }}{{ end }}{{ end }}`+
		`{{ executeTemplate "all" (split "," "a,b") | toUpper }}`))
	p.until("the content", func() bool { return p.last(0) == "<A><B>" })
	p.stop()
	for text, want := range map[string]string{
		`{{ define "a" }}{{ executeTemplate "a" }}{{ end }}{{ executeTemplate "a" }}`:                                               "MiB of memory",
		`{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ executeTemplate "a" }}{{ end }}{{ template "a" }}`:           "MiB of memory",
		`{{ define "a" }}{{ executeTemplate . . }}{{ end }}{{ executeTemplate "a" "a" }}`:                                           "MiB of memory",
		`{{ define "a" }}{{ executeTemplate "" }}{{ end }}{{ executeTemplate "a" }}`:                                                "MiB of memory",
		`{{ define "a" }}{{ plugin "/bin/true" }}{{ end }}{{ executeTemplate "a" }}`:                                                "plugin: the function is refused",
		`{{ define "a" }}{{ executeTemplate "b" }}{{ end }}{{ define "b" }}{{ writeToFile "x" }}{{ end }}{{ executeTemplate "a" }}`: "writeToFile: the function is refused",
		`{{ executeTemplate "missing" }}`:                                                "executeTemplate failed",
		`{{ executeTemplate (printf "%s" "{{ plugin }}") }}`:                             "executeTemplate failed",
		`{{ define "a" }}{{ file "/etc/passwd" }}{{ end }}{{ executeTemplate "a" }}`:     "executeTemplate: line 1: file",
		`{{ define "a" }}{{ index . 1 }}{{ end }}{{ executeTemplate "a" (env "HOME") }}`: "executeTemplate",
	} {
		if f := failing(t, w.request(text)); !strings.Contains(f.Text, want) {
			t.Errorf("%s: error = %+v, want %q", text, f, want)
		}
	}
	req := w.request(`{{ define "a" }}x{{ end }}{{ executeTemplate "a" }}`)
	req.Denied = []string{"executeTemplate"}
	if f := failing(t, req); !strings.Contains(f.Text, "executeTemplate: function is disabled") {
		t.Errorf("denied by the operator: %+v", f)
	}
}

// The operator's list is applied on top, and an empty one allows nothing that is always refused.
func TestDenylist(t *testing.T) {
	w := newWorld(t)
	w.write(t, "local/file", "text")
	for text, name := range map[string]string{
		`{{ "x" | sprig_upper }}`: "sprig_upper",
		`{{ define "d" }}{{ sprig_upper "x" }}{{ end }}{{ template "d" . }}`: "sprig_upper",
		`{{ block "b" . }}{{ printf "%s" (sprig_upper "x") }}{{ end }}`:      "sprig_upper",
		`{{ file "local/file" }}`: "file",
		`{{ define "d" }}{{ file "local/file" }}{{ end }}{{ template "d" . }}`: "file",
		`{{ with nomadVar "a" }}{{ .x }}{{ end }}`:                             "nomadVar",
		`{{ env "HOME" }}`: "env",
	} {
		req := w.request(text)
		req.Denied = []string{"sprig_*", "file", "nomadVar", "env"}
		if f := failing(t, req); !strings.Contains(f.Text, name+": function is disabled") {
			t.Errorf("%s: error = %+v", text, f)
		}
	}
	marker := filepath.Join(w.dir, "local/ran")
	req := w.request(fmt.Sprintf(`{{ plugin "/bin/touch" %q }}`, marker))
	req.Denied = nil
	failing(t, req)
	if _, err := os.Stat(marker); err == nil {
		t.Error("plugin ran a program")
	}
}

// Names that the library could add with a later version stay refused.
func TestHostFunctionsDoNotExist(t *testing.T) {
	w := newWorld(t)
	for _, call := range []string{`sprig_env "HOME"`, `sprig_expandenv "$HOME"`, `sprig_getHostByName "localhost"`, `sprig_now`,
		`sprig_date "2006"`} {
		failing(t, w.request("{{ "+call+" }}"))
	}
}

const canary = "s3cr3t-c4n4ry"

// An error of a template never contains a value, not even a part or another form of it.
func TestErrorsContainNoValues(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("v", map[string]string{"p": canary, "n": "123454321"})
	w.write(t, "local/secret", canary)
	for _, expr := range []string{
		`.p.Value | parseInt`, `.p.Value | parseJSON`, `.p.Value | toUpper | parseInt`, `.p.Value | sprig_substr 0 5 | parseBool`,
		`range .p`, `range .p.Value | toUpper | parseFloat`, `.p.Value | regexMatch "("`, `regexMatch (printf "(%s" .p.Value) "x"`,
		`.n.Value | parseInt | index (sprig_list 1 2)`, `index .p 1`, `if .missing.x`, `.p.nothing`, `.p.Value.x`,
		`nomadVar (printf "%s@@" .p.Value)`, `file .p.Value`, `mustEnv "NOT_SET" | printf .p.Value`, `call .p.Value`, `.p.Value | base64Decode`,
		`timestamp .p.Value 1`, `sprig_fail .p.Value`, `len .n.Value | index .p.Value`, `.p.Value | parseYAML | explodeMap`,
		`divide 0 1 | add .p.Value`,
		`template "x" (sprig_fail .p.Value)`, `sprig_toDate "2006" .p.Value | sprig_mustToDate .p.Value`, `.p.Value | loop`,
	} {
		keyword := "{{ " + expr + " }}"
		if strings.HasPrefix(expr, "range") || strings.HasPrefix(expr, "if") {
			keyword += "{{ end }}"
		}
		req := w.request(`{{ define "x" }}{{ end }}{{ with nomadVar "v" }}` + keyword + `{{ end }}`)
		req.Templates[0].ErrorOnMissingKey = true
		p := start(t, req)
		p.ended0(t, expr)
		if p.fatal == nil {
			continue // not an error
		}
		text := strings.ToLower(fmt.Sprintf("%+v", *p.fatal))
		for _, part := range []string{canary, canary[:5], canary[len(canary)-5:], "123454321"} {
			if strings.Contains(text, part) {
				t.Errorf("%s: the error contains the value: %s", expr, text)
			}
		}
		if p.fatal.Line != 1 {
			t.Errorf("%s: line %d in %s, want 1", expr, p.fatal.Line, text)
		}
	}
	env := w.request(`{{ env "TOKEN" | parseInt }}`, `{{ file "local/secret" | parseInt }}`)
	env.Env["TOKEN"] = canary
	for range 2 {
		if f := failing(t, env); strings.Contains(f.Text, canary) || !strings.Contains(f.Text, "parseInt failed") {
			t.Errorf("error = %+v", f)
		}
		env.Templates = env.Templates[1:]
	}
}

// ended0 waits for the end, or for a complete pass of a template that is not an error after all.
func (p *program) ended0(t *testing.T, what string) {
	t.Helper()
	p.until(what, func() bool { return p.fatal != nil || len(p.passes) > 0 })
}

func TestErrorsNameTheLine(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("v", map[string]string{"a": "b"})
	for text, want := range map[string]render.Fatal{
		"\n\n{{ if }}": {Line: 3, Text: "syntax: missing value for if"},
		"\n{{ range loop 3 }}\n{{ .nothing }}{{ end }}": {Line: 3, Text: "at <.nothing>: can't evaluate field nothing in type int64"},
		"{{ with nomadVar \"v\" }}\n{{ .b }}{{ end }}":  {Line: 2, Text: `at <.b>: map has no entry for key "b"`},
		"{{ nosuch }}":                 {Line: 1, Text: `syntax: function "nosuch" not defined`},
		"{{ mustEnv \"NOT_SET\" }}":    {Line: 1, Text: "at <mustEnv \"NOT_SET\">: mustEnv: required environment variable NOT_SET is empty"},
		"{{ file \"local/missing\" }}": {Line: 1, Text: "at <file \"local/missing\">: file: no such file or directory"},
		"{{ nomadVar \"a b\" }}": {Line: 1,
			Text: "at <nomadVar \"a b\">: nomadVar: malformed path: want path, path@namespace or path@namespace.region"},
	} {
		req := w.request(text)
		req.Templates[0].ErrorOnMissingKey = true
		if f := failing(t, req); f != want {
			t.Errorf("%q: %+v, want %+v", text, f, want)
		}
	}
}

// A template cannot read outside of the directories of the request, through no kind of path.
func TestFileStaysInside(t *testing.T) {
	w := newWorld(t)
	w.write(t, "other/secret", canary)
	for name, target := range map[string]string{"up": "../other/secret", "absolute": "/etc/passwd", "dir": "../other",
		"proc": "/proc/self/environ"} {
		if err := os.Symlink(target, filepath.Join(w.dir, "local", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd", "other/secret", "local/../other/secret", "/local/../other/secret",
		w.dir + "/other/secret", "../../etc/passwd", "local/up", "local/absolute", "local/dir/secret", "local/proc", "/local/./up", "local",
		"/local", "/localother",
	} {
		if f := failing(t, w.request(fmt.Sprintf("{{ file %q }}", name))); strings.Contains(f.Text, canary) {
			t.Errorf("%s: %+v", name, f)
		}
		req := w.request("")
		req.Templates[0].Source = name
		if f := failing(t, req); !strings.HasPrefix(f.Text, "read source: ") {
			t.Errorf("source %s: %+v", name, f)
		}
	}
}

// What is not a regular file is refused at once: a read of a FIFO would block.
func TestNoSpecialFiles(t *testing.T) {
	w := newWorld(t)
	if err := syscall.Mkfifo(filepath.Join(w.dir, "local/fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(w.dir, "local/socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"local/fifo", "local/socket", "alloc"} {
		begun := time.Now()
		req := w.request("")
		req.Templates[0].Source = name
		f := failing(t, req)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: refused after %v", name, took)
		}
		if name == "local/fifo" && f.Text != "read source: not a regular file" {
			t.Errorf("%s: %+v", name, f)
		}
		failing(t, w.request(fmt.Sprintf("{{ file %q }}", name)))
	}
}

// A template that does not end, or uses too much memory, ends the program with an error.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	w.write(t, "local/large", strings.Repeat("x", render.MaxContent/2+1))
	const m = "of memory"
	gigabyte := "{{ range loop 16384 }}" + strings.Repeat("x", 1<<16) + "{{ end }}"
	for name, c := range map[string]struct{ text, want string }{
		"endless loop": {`{{ range loop 9223372036854775807 }}{{ end }}`, "takes more than 2s"},
		"a gigabyte":   {gigabyte, "needs more than 80 MiB of memory"},
		"doubling":     {`{{ $x := "xx" }}{{ range loop 40 }}{{ $x = print $x $x }}{{ end }}`, m},
		"of a small task": {gigabyte,
			"needs more than 56 MiB of memory, which is what the memory of the task allows: increase memory in resources"},
		"17 MiB":              {`{{ file "local/large" }}{{ file "local/large" }}`, "at most 16777216 are allowed"},
		"recursion":           {`{{ define "r" }}{{ template "r" . }}{{ end }}{{ template "r" . }}`, ""},
		"recursion of blocks": {`{{ define "r" }}{{ range loop 2 }}{{ with print . }}{{ template "r" . }}{{ end }}{{ end }}{{ end }}{{ template "r" . }}`, ""},
		"parentheses":         {"{{ " + strings.Repeat("(", 1<<20) + " }}", "syntax: max expression depth exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			req := w.request(c.text)
			req.EvalLimit = 2 * time.Second
			if strings.Contains(c.want, m) {
				req.EvalLimit = 30 * time.Second // a slow machine reaches the limit of memory late
			}
			if name == "of a small task" {
				req.Memory = 64 << 20
			}
			p := start(t, req)
			p.ended()
			if p.fatal == nil || !strings.Contains(p.fatal.Text, c.want) {
				t.Fatalf("error = %+v, want %q (frames %v)", p.fatal, c.want, p.kinds)
			}
			p.stop()
			peak := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
			t.Logf("%+v, peak %d MiB", p.fatal, peak)
			if peak > 192 && !raced {
				t.Errorf("the program used %d MiB", peak)
			}
		})
	}
}

// The largest text is rendered.
func TestLargest(t *testing.T) {
	w := newWorld(t)
	w.write(t, "local/large", strings.Repeat("x", render.MaxContent))
	req := w.request(`{{ file "local/large" }}`)
	if !raced { // the race detector needs memory too
		req.Memory = 64 << 20 // of the smallest task
	}
	p := start(t, req)
	var rendered int
	p.until("rendered or failed", func() bool { rendered = len(p.last(0)); return rendered > 0 || p.fatal != nil })
	if rendered != render.MaxContent {
		t.Fatalf("rendered %d bytes, want %d", rendered, render.MaxContent)
	}
	if peak := peakMiB(t, p.cmd.Process.Pid); peak > 72 && !raced {
		t.Errorf("the program used %d MiB", peak)
	}
}

// peakMiB returns the most memory that a running program has used. The maximum in the resource usage of its end includes
// the memory of this process, of which it was a part before its exec.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var peak int
	if _, err := fmt.Sscan(rest, &peak); err != nil {
		t.Fatalf("no peak in %s: %v", status, err)
	}
	return peak >> 10
}
