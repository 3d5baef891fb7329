package template_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestStaticFiles(t *testing.T) {
	w := newWorld(t)
	w.put("local/source", `{{ env "GREETING" }} from {{ env "NOMAD_TASK_DIR" }}{{ env "CANARY" }}`)
	uid, gid := 12345, 23456
	list := []*nomad.Template{
		text("local/a/b/plain", "{{ 1 | add 2 }}"),
		{SourcePath: "${NOMAD_TASK_DIR}/source", DestPath: "${NOMAD_SECRETS_DIR}/from-source", Perms: "600"},
		{SourcePath: "local/source", DestPath: "/local/absolute", Perms: "0755"},
		text("${NOMAD_ALLOC_DIR}/shared", "shared"),
		text("../alloc/data/shared", "shared too"),
		text("top", "[{{ file \"local/source\" | len }}]"),
	}
	if os.Geteuid() == 0 {
		list[0].Uid, list[0].Gid = &uid, &gid
	}
	list[5].Once = true
	b := w.mustBegin(w.start(list...))
	w.until("no program is left", func() bool { started, running := w.programsRun(); return started == 1 && running == 0 })
	for name, want := range map[string]string{
		"local/a/b/plain": "3", "secrets/from-source": "hello from /local", "local/absolute": "hello from /local",
		"../alloc/shared": "shared", "../alloc/data/shared": "shared too", "top": "[70]",
	} {
		if got := w.file(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]os.FileMode{"local/a/b/plain": 0o644, "secrets/from-source": 0o600, "local/absolute": 0o755} {
		info, err := os.Stat(filepath.Join(w.dir.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		if st := info.Sys().(*syscall.Stat_t); list[0].Uid != nil && name == "local/a/b/plain" && (st.Uid != 12345 || st.Gid != 23456) {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
	if len(b.State) != 6 {
		t.Errorf("state = %v, want all templates", b.State)
	}
}

// A restart of the task or the agent renders static templates again only if they or their files have
// changed.
func TestStaticOnce(t *testing.T) {
	w := newWorld(t)
	a, c := text("local/a", "{{ timestamp }}"), text("local/c", "c")
	b := w.runs(a, c)
	first := w.file("local/a")
	b.stop()
	for name, before := range map[string]func(){
		"task": func() {}, "agent": w.restartAgent,
	} {
		before()
		b = w.runs(a, c)
		if started, _ := w.programsRun(); started != 1 || w.file("local/a") != first {
			t.Errorf("restart of the %s: %d programs, content %q, want those of the first start", name, started, w.file("local/a"))
		}
		b.stop()
	}
	if err := os.Remove(filepath.Join(w.dir.Path(), "local/c")); err != nil {
		t.Fatal(err)
	}
	b = w.runs(a, c)
	if started, _ := w.programsRun(); started != 2 || w.file("local/c") != "c" || w.file("local/a") != first {
		t.Errorf("%d programs, files %q and %q, want the missing file only", started, w.file("local/c"), w.file("local/a"))
	}
	b.stop()
	b = w.runs(text("local/a", "new text"), c)
	if started, _ := w.programsRun(); started != 3 || w.file("local/a") != "new text" {
		t.Errorf("%d programs, content %q, want the new text", started, w.file("local/a"))
	}
	b.stop()
	again := w.start(text("local/a", "new text"), c)
	again.All = true
	w.put("local/c", "changed by the task")
	w.mustBegin(again)
	if started, _ := w.programsRun(); started != 4 || w.file("local/c") != "c" {
		t.Errorf("%d programs, content %q, want all rendered", started, w.file("local/c"))
	}
}

func TestBadTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		list []*nomad.Template
		want string
	}{
		"up":                  {[]*nomad.Template{text("../../x", "")}, "leaves the directories of the task"},
		"up by interpolation": {[]*nomad.Template{text("local/${UP}/../x", "")}, "leaves the directories of the task"},
		"another task":        {[]*nomad.Template{text("../db/local/x", "")}, "leaves the directories of the task"},
		"private":             {[]*nomad.Template{text("private/x", "")}, "not for tasks"},
		"private, hidden":     {[]*nomad.Template{text("local/../private/x", "")}, "not for tasks"},
		"a directory":         {[]*nomad.Template{text("local/", "")}, "add the name of the file"},
		"the directory":       {[]*nomad.Template{text("local/..", "")}, "add the name of the file"},
		"nothing":             {[]*nomad.Template{text("${NOMAD_META_x}", "x")}, ""},
		"empty":               {[]*nomad.Template{text("", "")}, "destination: it is empty"},
		"NUL":                 {[]*nomad.Template{text("local/a\x00b", "")}, "NUL"},
		"the same twice":      {[]*nomad.Template{text("local/x", "x"), text("/local/./x", "x")}, "same destination"},
		"perms":               {[]*nomad.Template{with(text("local/x", "x"), func(n *nomad.Template) { n.Perms = "9" })}, "octal"},
		"setuid": {[]*nomad.Template{with(text("local/x", "x"), func(n *nomad.Template) { n.Perms = "4755" })},
			"octal number up to 777"},
		"logs": {[]*nomad.Template{{DestPath: "../alloc/data/../logs/web.stdout.0", EmbeddedTmpl: "x"}},
			"destination: the directory alloc/logs belongs to the agent"},
		"logs by variable": {[]*nomad.Template{{DestPath: "${NOMAD_ALLOC_DIR}/logs", EmbeddedTmpl: "x"}},
			"destination: the directory alloc/logs belongs to the agent"},
		"source outside":     {[]*nomad.Template{{DestPath: "local/x", SourcePath: "../../etc/passwd"}}, "source: the path leaves"},
		"source of the host": {[]*nomad.Template{{DestPath: "local/x", SourcePath: "/etc/passwd"}}, "source: templates can read local"},
		"no source":          {[]*nomad.Template{{DestPath: "local/x"}}, "source: it is missing"},
		"missing source": {[]*nomad.Template{{DestPath: "local/x", SourcePath: "local/none"}},
			`Template failed: template with destination "local/x": read source: no such file or directory`},
		"syntax": {[]*nomad.Template{text("local/fine", "x"), text("local/x", "\n{{ if }}")},
			`Template failed: template with destination "local/x", line 2: syntax: missing value for if`},
		"refused": {[]*nomad.Template{text("local/x", `{{ plugin "x" }}`)},
			"line 1: at <plugin \"x\">: plugin: the function is refused"},
		"no environment": {[]*nomad.Template{with(text("local/x", "A=b\nno variable"), func(n *nomad.Template) { n.Envvars = true })},
			`Template failed to read environment variables: template with destination "local/x": line 2 is not NAME=value`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.begin(w.start(c.list...))
			if c.want == "" {
				if err != nil {
					t.Errorf("Begin() = %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Begin() = %v, want %q", err, c.want)
			}
			if errors.As(err, new(*drivers.RecoverableError)) {
				t.Errorf("the error %v can be recovered", err)
			}
			if _, running := w.programsRun(); running != 0 {
				t.Error("a program still runs")
			}
		})
	}
}

// A program that cannot be started is not the fault of the template.
func TestNoProgram(t *testing.T) {
	w := newWorld(t)
	w.startup = errors.New("no Landlock")
	_, err := w.begin(w.start(text("local/x", "x")))
	if err == nil || !strings.Contains(err.Error(), "start the program that renders templates: no Landlock") ||
		!errors.As(err, new(*drivers.RecoverableError)) {
		t.Errorf("Begin() = %v, want a recoverable error with the cause", err)
	}
	refused := w.start(text("local/x", "x"))
	refused.Confine = func() (*template.Confinement, error) { return nil, errors.New("nothing confines") }
	if _, err := w.begin(refused); err == nil || !strings.Contains(err.Error(), "nothing confines") {
		t.Errorf("Begin() = %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("v", map[string]string{"password": "first"})
	env := func(dest, body string) *nomad.Template {
		return with(text(dest, body), func(n *nomad.Template) { n.Envvars = true })
	}
	a := env("local/a", `A={{ with nomadVar "v" }}{{ .password }}{{ end }}`+"\nSHARED=a\n# comment\nexport Q=\"x y\"\n")
	c := env("secrets/c", "SHARED=c\nC='literal'\n")
	b := w.runs(a, c, text("local/plain", "D=e"))
	if len(b.Env) != 4 || b.Env["A"] != "first" || b.Env["SHARED"] != "c" || b.Env["Q"] != "x y" || b.Env["C"] != "literal" {
		t.Errorf("env = %v", b.Env)
	}
	w.vars.Set("v", map[string]string{"password": "second"})
	w.until("the new value is set", func() bool {
		return w.task.read(func(k *task) bool { return k.env["A"] == "second" && k.env["C"] == "literal" })
	})
	b.stop()
	// A start that renders nothing again has the variables of the files.
	w.restartAgent()
	s := w.start(a, c)
	s.Running = true
	b = w.mustBegin(s)
	if b.Env["A"] != "second" || b.Env["C"] != "literal" {
		t.Errorf("env after a restart of the agent = %v", b.Env)
	}
	w.all.Started(nil)
	w.vars.Set("v", map[string]string{"password": "s3cr3t\nno variable s3cr3t"})
	w.until("the task is killed", func() bool { return w.task.read(func(k *task) bool { return len(k.kills) > 0 }) })
	if reason := w.task.killed()[0]; !strings.Contains(reason, "Template failed to read environment variables") ||
		strings.Contains(reason, "s3cr3t") || !strings.Contains(reason, "line 2") {
		t.Errorf("reason = %q, want the line without its text", reason)
	}
}
