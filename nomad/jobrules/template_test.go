package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestValidateTemplates(t *testing.T) {
	type template = nomad.Template
	edit := func(f func(*template)) *template {
		tmpl := &template{EmbeddedTmpl: "{{ env \"X\" }}", DestPath: "local/x", Perms: "0644", ChangeMode: "restart"}
		f(tmpl)
		return tmpl
	}
	minute, second, minus := time.Minute, time.Second, -1*time.Second
	low := -2
	for _, c := range []struct {
		name string
		t    *template
		want string // "" is fine
	}{
		{"plain", edit(func(*template) {}), ""},
		{"source", edit(func(t *template) { t.EmbeddedTmpl, t.SourcePath = "", "local/x.tmpl" }), ""},
		{"shared", edit(func(t *template) { t.DestPath = "../alloc/data/x" }), ""},
		{"references", edit(func(t *template) {
			t.DestPath, t.EmbeddedTmpl, t.SourcePath = "${NOMAD_SECRETS_DIR}/x", "", "${NOMAD_TASK_DIR}/y"
		}), ""},
		{"delimiters", edit(func(t *template) {
			t.LeftDelim, t.RightDelim, t.EmbeddedTmpl = "<<", ">>", "{{ plugin }} << env \"X\" >>"
		}), ""},
		{"signal in lower case", edit(func(t *template) { t.ChangeMode, t.ChangeSignal = "signal", "sighup" }), ""},
		{"no text", edit(func(t *template) { t.EmbeddedTmpl = "" }), "data and source are missing: set one"},
		{"both texts", edit(func(t *template) { t.SourcePath = "local/y" }), "data and source are both set: keep one"},
		{"source outside", edit(func(t *template) { t.EmbeddedTmpl, t.SourcePath = "", "../../etc/passwd" }),
			`source "../../etc/passwd" is outside`},
		{"syntax", edit(func(t *template) { t.EmbeddedTmpl = "a\n{{ if }}" }), "data: line 2"},
		{"refused function", edit(func(t *template) { t.EmbeddedTmpl = "{{ plugin `x` }}" }),
			"the function plugin is refused"},
		{"refused function in a pipe", edit(func(t *template) { t.EmbeddedTmpl = "{{ \"x\" | (env \"y\" | expandenv) }}" }),
			"the function expandenv is refused"},
		{"no destination", edit(func(t *template) { t.DestPath = "" }), "missing destination"},
		{"destination outside", edit(func(t *template) { t.DestPath = "../../x" }), `destination "../../x" is outside`},
		{"logs", edit(func(t *template) { t.DestPath = "../alloc/logs/t.stdout.0" }), `is in the directory of the logs`},
		{"destination with a newline", edit(func(t *template) { t.DestPath = "local/\n" }), "control character"},
		{"directory", edit(func(t *template) { t.DestPath = "local/" }), "is a directory: add the name"},
		{"directory of the task", edit(func(t *template) { t.DestPath = "/" }), "is a directory"},
		{"private directory", edit(func(t *template) { t.DestPath = "private/x" }), "private, which is not for tasks"},
		{"perms", edit(func(t *template) { t.Perms = "0888" }), `perms is "0888": use an octal number`},
		{"setuid", edit(func(t *template) { t.Perms = "4755" }), `perms is "4755"`},
		{"uid", edit(func(t *template) { t.Uid = &low }), "uid is -2"},
		{"change mode", edit(func(t *template) { t.ChangeMode = "reload" }), `change_mode is "reload": use noop`},
		{"signal", edit(func(t *template) { t.ChangeMode, t.ChangeSignal = "signal", "SIGX" }), `unknown change_signal "SIGX"`},
		{"no signal", edit(func(t *template) { t.ChangeMode = "signal" }), "change_signal is missing"},
		{"signal with env", edit(func(t *template) { t.ChangeMode, t.ChangeSignal, t.Envvars = "signal", "SIGHUP", true }), "env is true"},
		{"no script", edit(func(t *template) { t.ChangeMode = "script" }), "change_script is missing"},
		{"no command", edit(func(t *template) { t.ChangeMode, t.ChangeScript = "script", &nomad.ChangeScript{} }),
			"change_script: missing command"},
		{"script timeout", edit(func(t *template) {
			t.ChangeMode, t.ChangeScript = "script", &nomad.ChangeScript{Command: "x", Timeout: minus}
		}), "timeout is negative"},
		{"splay", edit(func(t *template) { t.Splay = minus }), "splay is negative"},
		{"wait", edit(func(t *template) { t.Wait = &nomad.WaitConfig{Min: &minute, Max: &second} }), "min of 1m0s is above max of 1s"},
		{"negative wait", edit(func(t *template) { t.Wait = &nomad.WaitConfig{Min: &minus} }), "wait: min or max is negative"},
		{"vault_grace", edit(func(t *template) { t.VaultGrace = second }),
			"VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. Please remove VaultGrace / vault_grace from template block."},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sample("service")
			j.TaskGroups[0].Tasks[0].Templates = []*template{c.t}
			jobrules.Canonicalize(j)
			checkFault(t, jobrules.Validate(j), c.want)
		})
	}
	j := sample("service")
	j.TaskGroups[0].Tasks[0].Templates = []*template{edit(func(*template) {}), edit(func(t *template) { t.DestPath = "local/./x" })}
	jobrules.Canonicalize(j)
	checkFault(t, jobrules.Validate(j), "two templates have this destination")
	task := j.TaskGroups[0].Tasks[0]
	task.Driver, task.Templates = "mock_driver",
		[]*template{edit(func(t *template) { t.ChangeMode, t.ChangeScript = "script", &nomad.ChangeScript{Command: "x"} })}
	checkFault(t, jobrules.Validate(j), "cannot run commands")
}

// checkFault checks that an error contains a text, or that there is none for the empty text.
func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("Validate() = %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("Validate() = %v, want an error with %q", err, want)
	}
}

// TestWarnings_VaultTemplates checks the warning about templates that need a vault block.
func TestWarnings_VaultTemplates(t *testing.T) {
	for text, warned := range map[string]bool{
		`{{ with secret "secret/app" }}{{ end }}`:                true,
		"\n{{ range secrets \"a\" }}{{ end }}":                   true,
		`{{ if false }}{{ with pkiCert "a" }}{{ end }}{{ end }}`: true,
		`{{ env "secret" }}{{ .secret }}`:                        false,
	} {
		j := sample("service")
		task := j.TaskGroups[0].Tasks[0]
		task.Templates = []*nomad.Template{{DestPath: "local/x", EmbeddedTmpl: text}}
		jobrules.Canonicalize(j)
		if err := jobrules.Validate(j); err != nil {
			t.Errorf("Validate(%q) = %v", text, err)
		}
		const want = `template with destination "local/x": line `
		got := strings.Join(jobrules.Warnings(j), "\n")
		if has := strings.Contains(got, want) && strings.Contains(got, "the task has no vault block"); has != warned {
			t.Errorf("Warnings(%q) = %q", text, got)
		}
		task.Vault = &nomad.Vault{}
		if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Contains(got, want) {
			t.Errorf("Warnings(%q) with a vault block = %q", text, got)
		}
	}
}
