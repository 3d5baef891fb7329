package allocrunner_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	_ "github.com/open-nomad/open-nomad/internal/render/engine" // the entry of a build without embedded programs
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvars"
	"github.com/open-nomad/open-nomad/nomad"
)

// withVariables makes the Task API of the world answer reads of variables.
func (w *world) withVariables() *testvars.Server {
	vars := testvars.New()
	w.api = &taskhook.API{Limit: connlimit.New(taskhook.SocketConns, 100), Handler: vars}
	return vars
}

// templated returns an allocation with one task of a driver.
func templated(driver, text string, list ...*nomad.Template) *nomad.Allocation {
	task := script("main", driver, text)
	task.Templates = list
	alloc := sized(allocation(nomad.JobTypeService, task))
	alloc.SignedIdentities = map[string]string{"main": testvars.Token}
	return alloc
}

// background runs the allocation until the test ends, or stop is called.
func (w *world) background(r *allocrunner.Runner) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// renderers returns the processes that render templates in a directory.
func renderers(t testing.TB, dir string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !bytes.HasPrefix(args, []byte(sidecar.Render+"\x00")) {
			continue
		}
		if cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")); err == nil && strings.HasPrefix(cwd, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// procField returns a field of /proc/<pid>/<file>.
func procField(t testing.TB, pid int, file, field string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		if value, ok := strings.CutPrefix(scan.Text(), field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in %s", field, file)
	return ""
}

// follows prints the content of a file at the start and after each SIGHUP.
const follows = `show() { cat local/page; echo; }; trap show HUP; show; while true; do sleep 0.02; done`

func TestTemplateFollowsAVariable(t *testing.T) {
	for _, driver := range []string{exec2.Name, rawexec.Name} {
		t.Run(driver, func(t *testing.T) {
			w := processes(t)
			vars := w.withVariables()
			alloc := templated(driver, follows,
				&nomad.Template{DestPath: "local/page", EmbeddedTmpl: `{{ with nomadVar "nomad/jobs/job" }}{{ .title }}{{ end }}`,
					ChangeMode: "signal", ChangeSignal: "SIGHUP"},
				&nomad.Template{DestPath: "secrets/env", EmbeddedTmpl: "FROM_TEMPLATE={{ env \"NOMAD_TASK_NAME\" }}", Envvars: true, Perms: "0400"})
			r := w.runner(alloc)
			stop := w.background(r)
			dir := filepath.Join(w.dir, "alloc", alloc.ID)
			out := func() string { return w.file(alloc, "alloc/logs/main.stdout.0") }
			testpace.Until(t, "the program waits for the variable", func() bool { return len(renderers(t, dir)) == 1 })
			if s := r.States()["main"]; s.State != nomad.TaskStatePending {
				t.Errorf("the task is %s without its file", s.State)
			}
			vars.Set("nomad/jobs/job", map[string]string{"title": "one"})
			testpace.Until(t, "the task prints the first content", func() bool {
				_, err := os.Stat(filepath.Join(dir, "alloc/logs/main.stdout.0"))
				return err == nil && out() == "one\n"
			})
			confinedRenderer(t, driver, renderers(t, dir))
			by := map[string]string{exec2.Name: "driver exec2", rawexec.Name: "the client, not by driver raw_exec"}[driver]
			if !slices.ContainsFunc(r.States()["main"].Events,
				func(e *nomad.TaskEvent) bool { return e.Message == "Rendering templates, confined by "+by }) {
				t.Errorf("events %v, want one that names %q", types(r.States()["main"]), by)
			}
			vars.Set("nomad/jobs/job", map[string]string{"title": "two"})
			testpace.Until(t, "the task prints the second content", func() bool { return out() == "one\ntwo\n" })

			// The program ends with the agent, and the task does not. The next agent applies the missed change.
			stop()
			testpace.Until(t, "the program has ended", func() bool { return len(renderers(t, dir)) == 0 })
			vars.Set("nomad/jobs/job", map[string]string{"title": "three"})
			next := w.withProcesses()
			second := next.runner(alloc)
			if err := second.Restore(); err != nil {
				t.Fatal(err)
			}
			stop = next.background(second)
			defer stop()
			testpace.Until(t, "the task prints the missed content", func() bool { return out() == "one\ntwo\nthree\n" })
			if s := second.States()["main"]; s.Restarts != 0 || s.Failed {
				t.Errorf("restarts %d, events %v", s.Restarts, types(s))
			}
			if err := second.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			if left := renderers(t, dir); len(left) > 0 {
				t.Errorf("programs %v are left", left)
			}
		})
	}
}

// confinedRenderer checks the user, the capabilities, the filter and the memory of a program. The pages of its code do not
// count: all renderers share them, and make bench measures what each has with them.
func confinedRenderer(t *testing.T, driver string, pids []int) {
	t.Helper()
	if len(pids) != 1 {
		t.Fatalf("%d programs, want 1", len(pids))
	}
	uid := strings.Fields(procField(t, pids[0], "status", "Uid"))[0]
	if driver == exec2.Name && !strings.HasPrefix(uid, "80") {
		t.Errorf("the program runs as uid %s, want the task's", uid)
	}
	for field, want := range map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
		if got := procField(t, pids[0], "status", field); got != want {
			t.Errorf("%s of the program = %s, want %s", field, got, want)
		}
	}
	anonymous, err := strconv.Atoi(strings.Fields(procField(t, pids[0], "smaps_rollup", "Pss_Anon"))[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the program has %d KiB of its own; with its code %s", anonymous, procField(t, pids[0], "smaps_rollup", "Pss"))
	if sidecarEmbedded() && anonymous > 6<<10 {
		t.Errorf("the program has %d KiB of its own, want at most 6 MiB", anonymous)
	}
}

// sidecarEmbedded reports whether the program is one of its own, and not this test.
func sidecarEmbedded() bool {
	program, err := sidecar.Program(sidecar.Render)
	return err == nil && program.Name() != "/proc/self/exe"
}

func TestStaticTemplateHasNoProcess(t *testing.T) {
	w := processes(t)
	alloc := templated(exec2.Name, `cat local/page; echo " $FROM_TEMPLATE"; stat -c "%u" local/page; id -u; sleep 600`,
		&nomad.Template{DestPath: "local/page", EmbeddedTmpl: `{{ env "NOMAD_TASK_NAME" }}`, Perms: "0400"},
		&nomad.Template{DestPath: "secrets/env", EmbeddedTmpl: "FROM_TEMPLATE=x", Envvars: true})
	r := w.runner(alloc)
	defer w.background(r)()
	testpace.Until(t, "the task prints", func() bool {
		lines, err := os.ReadFile(filepath.Join(w.dir, "alloc", alloc.ID, "alloc/logs/main.stdout.0"))
		f := strings.Fields(string(lines))
		return err == nil && len(f) == 4 && f[0] == "main" && f[1] == "x" && f[2] == f[3]
	})
	if pids := renderers(t, filepath.Join(w.dir, "alloc", alloc.ID)); len(pids) > 0 {
		t.Errorf("programs %v run", pids)
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// An error of a template fails the task with the event of Nomad, whatever the restart policy is.
func TestTemplateErrorFailsTheTask(t *testing.T) {
	w := processes(t)
	alloc := templated(exec2.Name, "true", &nomad.Template{DestPath: "local/page", EmbeddedTmpl: "\n{{ if }}"})
	alloc.Job.TaskGroups[0].Tasks[0].RestartPolicy.Attempts = 5
	got := w.run(alloc)
	s := got.TaskStates["main"]
	if !s.Failed || s.Restarts > 0 {
		t.Errorf("failed %t, restarts %d: %v", s.Failed, s.Restarts, types(s))
	}
	want := `Template failed: template with destination "local/page", line 2: syntax: missing value for if`
	for _, e := range s.Events {
		if e.Type == nomad.TaskKilling && strings.Contains(e.DisplayMessage, want) && e.FailsTask {
			return
		}
	}
	t.Errorf("no event has %q: %v", want, types(s))
}

// A render that needs too much memory ends the program, not the task that shares its control group. It makes no
// difference whether the kernel or the program notices it.
func TestHugeRenderKeepsTheTask(t *testing.T) {
	for name, expression := range map[string]string{
		"at once": `{{ "x" | sprig_repeat (.n.Value | parseInt | sprig_int) }}`,
		"gradual": `{{ range loop (.n.Value | parseInt) }}` + strings.Repeat("x", 1<<16) + `{{ end }}`,
	} {
		t.Run(name, func(t *testing.T) { hugeRender(t, expression) })
	}
}

func hugeRender(t *testing.T, expression string) {
	w := processes(t)
	vars := w.withVariables()
	vars.Set("v", map[string]string{"n": "1"})
	alloc := templated(exec2.Name, "while true; do sleep 1; done", &nomad.Template{DestPath: "local/page", ChangeMode: "restart",
		EmbeddedTmpl: `{{ with nomadVar "v" }}` + expression + `{{ end }}`})
	r := w.runner(alloc)
	defer w.background(r)()
	testpace.Until(t, "the task runs", func() bool { return r.States()["main"] != nil && r.States()["main"].State == nomad.TaskStateRunning })
	vars.Set("v", map[string]string{"n": "1073741824"})
	testpace.Until(t, "the end of the program is reported", func() bool {
		s := r.States()["main"]
		for _, e := range s.Events {
			if strings.Contains(e.DisplayMessage, "program that renders templates ended") {
				return true
			}
		}
		if s.State == nomad.TaskStateDead {
			t.Fatalf("the task ended: %v", types(s))
		}
		return false
	})
	if s := r.States()["main"]; s.State != nomad.TaskStateRunning || s.Restarts > 0 {
		t.Errorf("the task is %s after %d restarts: %v", s.State, s.Restarts, types(s))
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
