package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/render"
	_ "github.com/open-nomad/open-nomad/internal/render/engine"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvars"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(testpace.Main(m))
}

// program is a running program and the frames that it has sent.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	done   chan struct{} // closed after the last frame
	waited sync.Once

	mu       sync.Mutex
	contents map[int][]string
	passes   []render.Pass
	missing  []render.Missing
	outages  []render.Outage
	fatal    *render.Fatal
	kinds    []render.Kind
	err      error
}

// start runs the program with a request.
func start(t *testing.T, req *render.Request) *program {
	t.Helper()
	return startWith(t, nil, req)
}

// startWith runs the program with descriptor 2, which may be nil, and a request.
func startWith(t *testing.T, stderr *os.File, req *render.Request) *program {
	t.Helper()
	p := &program{t: t, contents: map[int][]string{}, done: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{sidecar.Render}, Env: []string{"CANARY=from the host", "HOME=/root"}}
	for name, value := range render.Environment() {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if stderr != nil {
		p.cmd.Stderr = stderr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	go func() {
		defer close(p.done)
		p.read(render.NewReader(stdout))
	}()
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.stdin.Write(text); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop closes stdin, which ends the program.
func (p *program) stop() {
	p.stdin.Close() // its end is the message
	<-p.done
	p.waited.Do(func() {
		var status *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &status) {
			p.t.Errorf("Wait() = %v", err)
		}
	})
}

func (p *program) read(r *render.Reader) {
	for {
		f, err := r.Next()
		if err == io.EOF {
			return
		}
		p.mu.Lock()
		if err == nil {
			err = p.take(f)
		}
		p.err = err
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *program) take(f *render.Frame) error {
	p.kinds = append(p.kinds, f.Kind)
	switch f.Kind {
	case render.KindContent:
		text, err := io.ReadAll(f.Body())
		p.contents[f.Template] = append(p.contents[f.Template], string(text))
		return err
	case render.KindPass:
		return decodeTo(f, &p.passes)
	case render.KindMissing:
		return decodeTo(f, &p.missing)
	case render.KindOutage:
		return decodeTo(f, &p.outages)
	case render.KindFatal:
		p.fatal = new(render.Fatal)
		return f.Decode(p.fatal)
	}
	return nil
}

func decodeTo[T any](f *render.Frame, list *[]T) error {
	var v T
	err := f.Decode(&v)
	*list = append(*list, v)
	return err
}

// until waits until a condition on the received frames is met.
func (p *program) until(what string, met func() bool) {
	p.t.Helper()
	testpace.Until(p.t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return met()
	})
}

// ended waits for the end of the program.
func (p *program) ended() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		p.t.Fatal("the program does not end")
	}
	if p.err != nil {
		p.t.Fatalf("read frames: %v", p.err)
	}
}

// last returns the last text of a template.
func (p *program) last(template int) string {
	list := p.contents[template]
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// world is a task's directory with the Task API.
type world struct {
	dir  string
	vars *testvars.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	for _, name := range []string{"local", "secrets", "alloc", "other"} {
		if err := os.Mkdir(filepath.Join(w.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.vars = testvars.Start(t, filepath.Join(w.dir, "secrets/api.sock"))
	return w
}

func (w *world) request(texts ...string) *render.Request {
	req := &render.Request{
		Dir: w.dir, Socket: filepath.Join(w.dir, "secrets/api.sock"), Token: testvars.Token, Namespace: "default", Region: "global",
		Env:   map[string]string{"GREETING": "hello"},
		Roots: []render.Root{{Path: filepath.Join(w.dir, "local"), Names: []string{"/local"}}, {Path: filepath.Join(w.dir, "alloc")}},
		Retry: render.Retry{Attempts: 3, Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}, BlockQueryWait: time.Minute,
		MaxStale: time.Hour,
	}
	for _, text := range texts {
		req.Templates = append(req.Templates, render.Template{Text: text})
	}
	return req
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStatic(t *testing.T) {
	w := newWorld(t)
	w.write(t, "local/source", "from a file: {{ env \"GREETING\" }}")
	w.write(t, "local/empty", "")
	req := w.request(
		`{{ env "GREETING" }} {{ env "CANARY" }}|{{ env "HOME" }}|{{ envOrDefault "CANARY" "none" }}`,
		"", "[[ 1 | add 2 ]] {{ raw }}", `{{ "x" | toUpper | sprig_repeat 3 }}{{ spew_dump "to stdout" }}`, "")
	req.Templates[1].Source = "local/source"
	req.Templates[2].LeftDelim, req.Templates[2].RightDelim = "[[", "]]"
	req.Templates[4].Source = "/local/empty"
	p := start(t, req)
	p.ended()
	for i, want := range []string{"hello ||none", "from a file: hello", "3 {{ raw }}", "XXX", ""} {
		if got := p.contents[i]; len(got) != 1 || got[0] != want {
			t.Errorf("template %d = %q, want %q", i, got, want)
		}
	}
	if len(p.passes) != 1 || !p.passes[0].Complete || len(p.passes[0].Live) > 0 || p.kinds[len(p.kinds)-1] != render.KindDone {
		t.Errorf("passes %v, frames %v, want one complete pass and the end", p.passes, p.kinds)
	}
}

// A task whose data can change has a program that sends each change once.
func TestVariables(t *testing.T) {
	w := newWorld(t)
	req := w.request(
		`{{ with nomadVar "nomad/jobs/web" }}{{ .password }}{{ end }}`,
		`{{ if nomadVarExists "nomad/jobs/flag" }}on{{ else }}off{{ end }}`,
		`{{ range nomadVarList "nomad/jobs" }}{{ .Path }} {{ end }}`,
		`{{ range nomadVarListSafe "shared" }}{{ .Path }} {{ end }}`, "static")
	p := start(t, req)
	p.until("the missing data is named", func() bool {
		return len(p.missing) > 0 &&
			strings.Join(p.missing[len(p.missing)-1].Names,
				" ") == "nomad.var.block(nomad/jobs/web@default.global) nomad.var.list(shared@default.global)"
	})
	w.vars.Set("nomad/jobs/web", map[string]string{"password": "first"})
	w.vars.Set("shared/a", map[string]string{"x": "y"})
	p.until("complete", func() bool { return len(p.passes) > 0 && p.passes[len(p.passes)-1].Complete })
	p.until("the list is newer than the variable", func() bool { return p.last(2) == "nomad/jobs/web " })
	if p.last(0) != "first" || p.last(1) != "off" || p.last(3) != "shared/a " || p.last(4) != "static" {
		t.Errorf("contents = %v", p.contents)
	}
	if live := p.passes[len(p.passes)-1].Live; fmt.Sprint(live) != "[0 1 2 3]" {
		t.Errorf("live = %v, want all but the static template", live)
	}
	w.vars.Set("nomad/jobs/web", map[string]string{"password": "second"})
	p.until("the change arrives", func() bool { return p.last(0) == "second" })
	w.vars.Set("nomad/jobs/flag", map[string]string{"x": "y"})
	p.until("existence arrives", func() bool { return p.last(1) == "on" })
	p.until("the list arrives", func() bool { return p.last(2) == "nomad/jobs/flag nomad/jobs/web " })
	w.vars.Delete("nomad/jobs/flag")
	p.until("the end of existence arrives", func() bool { return p.last(1) == "off" })
	// The content of a deleted variable stays.
	w.vars.Delete("nomad/jobs/web")
	p.until("the list is empty", func() bool { return p.last(2) == "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last(0) != "second" || len(p.contents[0]) != 2 || len(p.contents[4]) != 1 {
		t.Errorf("contents = %v, want each change once and the last one of a deleted variable", p.contents)
	}
}

func TestOnceEndsWithLiveData(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	for name, change := range map[string]func(*render.Request){
		"the template": func(r *render.Request) { r.Templates[0].Once = true },
		"the request":  func(r *render.Request) { r.Once = true },
	} {
		t.Run(name, func(t *testing.T) {
			req := w.request(`{{ with nomadVar "a" }}{{ .x }}{{ end }}`)
			change(req)
			p := start(t, req)
			p.ended()
			if p.last(0) != "1" || p.kinds[len(p.kinds)-1] != render.KindDone {
				t.Errorf("content %v, frames %v", p.contents, p.kinds)
			}
		})
	}
}

// Changes within the minimum wait are rendered together, and at the latest after the maximum.
func TestWait(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "0"})
	req := w.request(`{{ with nomadVar "a" }}{{ .x }}{{ end }}`, `{{ with nomadVar "a" }}{{ .x }}{{ end }}`)
	req.Templates[0].Wait = render.Wait{Min: time.Hour, Max: time.Second}
	req.Templates[1].Wait = render.Wait{Min: time.Hour, Max: 2 * time.Hour}
	p := start(t, req)
	begun := time.Now()
	p.until("the first render does not wait", func() bool { return p.last(0) == "0" && p.last(1) == "0" })
	w.vars.Set("a", map[string]string{"x": "1"})
	changed := time.Now()
	p.until("the maximum has elapsed", func() bool { return p.last(0) == "1" })
	if took := time.Since(changed); took < 900*time.Millisecond {
		t.Errorf("rendered after %v, want the maximum of 1s (first render at %v)", took, changed.Sub(begun))
	}
	if p.last(1) != "0" {
		t.Errorf("the other template has %q, want no new content within its wait", p.last(1))
	}
}

func TestFileIsWatched(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.write(t, "local/f", "one")
	if err := os.Symlink("f", filepath.Join(w.dir, "local/link")); err != nil {
		t.Fatal(err)
	}
	p := start(t, w.request(`{{ file "/local/f" }}`, `{{ file "local/link" }}`, fmt.Sprintf(`{{ file %q }}`, w.dir+"/local/f")))
	p.until("rendered", func() bool { return p.last(0) == "one" && p.last(1) == "one" && p.last(2) == "one" })
	w.write(t, "local/f", "a longer text")
	p.until("changed", func() bool { return p.last(0) == "a longer text" && p.last(1) == p.last(0) && p.last(2) == p.last(0) })
	// A file that is gone does not end the program, and its return is noticed.
	if err := os.Remove(filepath.Join(w.dir, "local/f")); err != nil {
		t.Fatal(err)
	}
	p.until("the outage is reported", func() bool { return len(p.outages) == 1 })
	w.write(t, "local/f", "back")
	p.until("recovered", func() bool {
		return p.last(0) == "back" && bytes.Contains(kindBytes(p.kinds), []byte{byte(render.KindRecovered)})
	})
}

func kindBytes(kinds []render.Kind) (out []byte) {
	for _, k := range kinds {
		out = append(out, byte(k))
	}
	return out
}

// Failing reads end the program before the first complete render only. Later, one outage is reported.
func TestOutage(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Fail(500)
	const text = `{{ with nomadVar "a" }}{{ .x }}{{ end }}`
	p := start(t, w.request("static", text))
	p.ended()
	if p.fatal == nil || p.fatal.Template != 1 ||
		!strings.Contains(p.fatal.Text, "nomad.var.block(a@default.global): the API returned status 500") {
		t.Fatalf("fatal = %+v, want the name of the data and the status", p.fatal)
	}
	kept := w.request(text)
	kept.Kept = true
	p = start(t, kept)
	p.until("the outage is reported", func() bool { return len(p.outages) == 1 })
	w.vars.Set("a", map[string]string{"x": "1"})
	w.vars.Fail(0)
	p.until("rendered", func() bool { return p.last(0) == "1" })
	w.vars.Fail(503)
	p.until("the second outage is reported", func() bool { return len(p.outages) == 2 })
	reads := w.vars.Reads()
	testpace.Until(t, "reads go on", func() bool { return w.vars.Reads() > reads+3 })
	w.vars.Set("a", map[string]string{"x": "2"})
	w.vars.Fail(0)
	p.until("the change of the outage arrives", func() bool { return p.last(0) == "2" })
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.outages) != 2 || bytes.Count(kindBytes(p.kinds), []byte{byte(render.KindRecovered)}) != 2 {
		t.Errorf("outages %v, frames %v, want two of each", p.outages, p.kinds)
	}
}

// More variables than queries at the same time are all read, and followed.
func TestManyVariables(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	var text strings.Builder
	for i := range 60 {
		path := fmt.Sprintf("v/%d", i)
		w.vars.Set(path, map[string]string{"x": "0"})
		fmt.Fprintf(&text, "{{ with nomadVar %q }}{{ .x }}{{ end }}", path)
	}
	p := start(t, w.request(text.String()))
	zeros := strings.Repeat("0", 60)
	p.until("all are read", func() bool { return p.last(0) == zeros })
	w.vars.Set("v/59", map[string]string{"x": "1"})
	p.until("a change arrives", func() bool { return p.last(0) == zeros[1:]+"1" })
	if n := w.vars.MaxOpen(); n > 16 {
		t.Errorf("%d queries at the same time, want at most 16", n)
	}
}

// The program ends with its stdin, so it never outlives the agent.
func TestEndsWithStdin(t *testing.T) {
	w := newWorld(t)
	p := start(t, w.request(`{{ with nomadVar "a" }}{{ .x }}{{ end }}`))
	p.until("it runs", func() bool { return len(p.missing) > 0 })
	p.stdin.Close() // its end is the message
	p.ended()
}
