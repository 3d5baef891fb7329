package jobrules

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// validateTemplates checks the template blocks of a task. A value with a reference is checked on the node only.
func validateTemplates(t *nomad.Task, f *faults) {
	taken := map[string]bool{}
	for _, tmpl := range t.Templates {
		in := f.in("template", tmpl.DestPath)
		validateTemplate(tmpl, in, t)
		at := path.Join(t.Name, tmpl.DestPath)
		if tmpl.DestPath != "" && taken[at] {
			in.add("two templates have this destination: change one of them")
		}
		taken[at] = true
	}
}

func validateTemplate(tmpl *nomad.Template, f *faults, t *nomad.Task) {
	validateTemplateText(tmpl, f, t)
	validateTemplateDestination(tmpl.DestPath, f, t.Name)
	if tmpl.VaultGrace != 0 {
		f.add("VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. Please remove VaultGrace / vault_grace from template block.")
	}
	if tmpl.Splay < 0 {
		f.add("splay is negative")
	}
	if n, err := strconv.ParseUint(tmpl.Perms, 8, 32); tmpl.Perms != "" && (err != nil || n > 0o777) {
		f.add("perms is %q: use an octal number up to 777, such as 0644", tmpl.Perms)
	}
	validateOwner(tmpl, f)
	validateWait(tmpl.Wait, f)
	validateChangeMode(tmpl, f, t.Driver)
}

func validateTemplateDestination(name string, f *faults, task string) {
	at := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case name == "":
		f.add("missing destination: set it to a file such as local/app.conf")
	case at == "." || strings.HasSuffix(name, "/"):
		f.add("destination %q is a directory: add the name of the file", name)
	case at == "private" || strings.HasPrefix(at, "private/"):
		f.add("destination is in the directory private, which is not for tasks: use a path such as local/app.conf")
	default:
		validateDestination(name, f, task)
	}
}

func validateTemplateText(tmpl *nomad.Template, f *faults, t *nomad.Task) {
	switch {
	case tmpl.EmbeddedTmpl == "" && tmpl.SourcePath == "":
		f.add("data and source are missing: set one of them")
	case tmpl.EmbeddedTmpl != "" && tmpl.SourcePath != "":
		f.add("data and source are both set: keep one of them")
	case tmpl.SourcePath != "":
		if outside(tmpl.SourcePath, t.Name) {
			f.add("source %q is outside the directory of the task and the shared directory: use a file such as local/app.tmpl", tmpl.SourcePath)
		}
	default:
		if err := render.CheckText(tmpl.EmbeddedTmpl, tmpl.LeftDelim, tmpl.RightDelim); err != nil {
			f.add("data: %v", err)
		}
	}
}

// nativeTemplates refuses functions of templates that need Consul.
func nativeTemplates(f *faults, t *nomad.Task) {
	for _, tmpl := range t.Templates {
		if err := render.CheckNative(tmpl.EmbeddedTmpl, tmpl.LeftDelim, tmpl.RightDelim); err != nil {
			f.in("template", tmpl.DestPath).add("data: %v", err)
		}
	}
}

// vaultTemplates returns a warning for each template of a task without a vault block that needs one. It is not an error,
// since the call may never be evaluated.
func vaultTemplates(t *nomad.Task, at string) (out []string) {
	if t.Vault != nil {
		return nil
	}
	for _, tmpl := range t.Templates {
		if err := render.CheckVault(tmpl.EmbeddedTmpl, tmpl.LeftDelim, tmpl.RightDelim); err != nil {
			out = append(out, fmt.Sprintf("%s: template with destination %q: %v", at, untrusted.Shorten(tmpl.DestPath, maxShown), err))
		}
	}
	return out
}

func validateOwner(tmpl *nomad.Template, f *faults) {
	for key, id := range map[string]*int{"uid": tmpl.Uid, "gid": tmpl.Gid} {
		if id != nil && *id < -1 {
			f.add("%s is %d: it must be 0 or more", key, *id)
		}
	}
}

func validateWait(w *nomad.WaitConfig, f *faults) {
	if w == nil {
		return
	}
	switch {
	case w.Min != nil && *w.Min < 0, w.Max != nil && *w.Max < 0:
		f.add("wait: min or max is negative")
	case w.Min != nil && w.Max != nil && *w.Min > *w.Max:
		f.add("wait: min of %s is above max of %s", *w.Min, *w.Max)
	}
}

func validateChangeMode(tmpl *nomad.Template, f *faults, driver string) {
	switch tmpl.ChangeMode {
	case "", nomad.TemplateChangeModeNoop, nomad.TemplateChangeModeRestart:
	case nomad.TemplateChangeModeSignal:
		switch {
		case tmpl.ChangeSignal == "":
			f.add("change_mode is \"signal\", and change_signal is missing: set it to a name such as SIGHUP")
		case !KnownSignal(tmpl.ChangeSignal):
			f.add("unknown change_signal %q: use a name such as SIGHUP", tmpl.ChangeSignal)
		}
		if tmpl.Envvars {
			f.add("change_mode is \"signal\", and env is true: a process keeps its variables, so use \"restart\" or \"noop\"")
		}
	case nomad.TemplateChangeModeScript:
		validateChangeScript(tmpl.ChangeScript, f)
		if driver == driverWithoutExec {
			f.add("change_mode is \"script\", and driver %q cannot run commands in a task: use restart or signal", driver)
		}
	default:
		f.add("change_mode is %q: use noop, restart, signal or script", tmpl.ChangeMode)
	}
}

// driverWithoutExec cannot run commands in its tasks. Nodes report the capabilities of other drivers.
const driverWithoutExec = "mock_driver"

func validateChangeScript(s *nomad.ChangeScript, f *faults) {
	switch {
	case s == nil:
		f.add("change_mode is \"script\", and change_script is missing: add it with a command")
	case strings.TrimSpace(s.Command) == "":
		f.add("change_script: missing command")
	case s.Timeout < 0:
		f.add("change_script: timeout is negative")
	}
}
