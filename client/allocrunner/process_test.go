package allocrunner_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// processes returns a world whose tasks are real processes.
func processes(t testing.TB) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids, mounts and control groups")
	}
	w := newWorld(t)
	for d := w.dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil { // needed by other uids
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		super := supervise.NewClient(filepath.Join(w.dir, "supervise"), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	return w.withProcesses()
}

// withProcesses returns a new agent on the same disk, with the same supervisor.
func (w *world) withProcesses() *world {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	super := supervise.NewClient(filepath.Join(w.dir, "supervise"), log)
	w.t.Cleanup(func() { super.Close() })
	next := w.agent()
	raw := rawexec.New(rawexec.Name, super)
	err := raw.SetConfig(cty.ObjectVal(map[string]cty.Value{"enabled": cty.True}))
	if err != nil {
		w.t.Fatal(err)
	}
	next.set, err = driverset.New(driverset.Config{
		Drivers: []drivers.Driver{raw, exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: super})}, Log: log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}

func script(name, driver, text string) *nomad.Task {
	t := mockTask(name, map[string]any{"command": "/bin/sh", "args": []any{"-c", text}})
	t.Driver, t.Privileged = driver, driver == rawexec.Name
	return t
}

// sized sets the resources of every task as a scheduler would.
func sized(a *nomad.Allocation) *nomad.Allocation {
	for _, r := range a.AllocatedResources.Tasks {
		r.Cpu.CpuShares, r.Memory.MemoryMB = 500, 64
	}
	return a
}

func TestRawExecToItsExitCode(t *testing.T) {
	w := processes(t)
	alloc := sized(allocation(nomad.JobTypeBatch, script("main", rawexec.Name,
		`echo "$NOMAD_TASK_NAME $HOST_VAR $GREETING"; pwd; exit 7`)))
	alloc.Job.TaskGroups[0].Tasks[0].Env = map[string]string{"GREETING": "hi from ${node.unique.name}"}
	r := w.runner(alloc)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := r.States()["main"]
	if exitCode(s) != 7 || !s.Failed || r.State().ClientStatus != nomad.AllocClientStatusFailed {
		t.Errorf("exit code %d, failed %t, %s", exitCode(s), s.Failed, r.State().ClientStatus)
	}
	want := fmt.Sprintf("main x hi from n1\n%s/alloc/%s/main\n", w.dir, alloc.ID)
	if got := w.file(alloc, "alloc/logs/main.stdout.0"); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// refused matches the messages of programs about operations that the sandbox denies.
var refused = regexp.MustCompile("ermission denied|No such file|nonexistent")

// TestSandboxedTasks checks that each task has its own uid and token, and cannot access those
// of others.
func TestSandboxedTasks(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp") // outside the tasks' private /tmp, so that the sandbox must deny access to other tasks
	w := processes(t)
	spy := script("spy", exec2.Name, `id -u; cat $NOMAD_SECRETS_DIR/nomad_token; echo
		cat ../owner/secrets/nomad_token; ls ../owner/local; echo x > ../owner/local/y; cat /etc/shadow
		mv ../owner/tmp ../owner/moved; touch $NOMAD_ALLOC_DIR/data/shared; echo $HOST_VAR.`)
	owner := script("owner", exec2.Name,
		`id -u; echo mine > $NOMAD_TASK_DIR/f; while [ ! -e $NOMAD_ALLOC_DIR/data/shared ]; do sleep 0.05; done`)
	spy.Identity.File, owner.Identity.File = true, true
	alloc := sized(allocation(nomad.JobTypeBatch, spy, owner))
	alloc.SignedIdentities = map[string]string{"spy": "token-of-spy", "owner": "token-of-owner"}
	r := w.runner(alloc)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := strings.Fields(w.file(alloc, "alloc/logs/spy.stdout.0"))
	uid := strings.TrimSpace(w.file(alloc, "alloc/logs/owner.stdout.0"))
	if len(out) != 3 || out[1] != "token-of-spy" || out[2] != "." {
		t.Errorf("output of spy = %q, want its uid, its own token and a dot", out)
	}
	if len(out) > 0 && (out[0] == uid || !strings.HasPrefix(out[0], "80") || !strings.HasPrefix(uid, "80")) {
		t.Errorf("uids %s and %s, want two of the pool", out[0], uid)
	}
	stderr := w.file(alloc, "alloc/logs/spy.stderr.0")
	// The other task's directory is hidden too if this test runs below the host's /tmp.
	if n := len(refused.FindAllString(stderr, -1)); n != 5 {
		t.Errorf("%d of 5 attempts were denied:\n%s", n, stderr)
	}
	if status := r.State().ClientStatus; status != nomad.AllocClientStatusComplete {
		t.Errorf("status = %s, want complete: %v", status, types(r.States()["spy"]))
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// A later agent recovers the same process, and the exit code of one that exited meanwhile.
func TestProcessesOutliveTheAgent(t *testing.T) {
	w := processes(t)
	stays := script("stays", exec2.Name, `echo $$; while [ ! -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done; id -u; exit 5`)
	ends := script("ends", exec2.Name, `while [ ! -e $NOMAD_ALLOC_DIR/data/end ]; do sleep 0.02; done; exit 0`)
	alloc := sized(allocation(nomad.JobTypeBatch, stays, ends))
	ctx, shutdown := context.WithCancel(t.Context())
	first, ended := w.runner(alloc), make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	testpace.Until(t, "both run", func() bool {
		s := first.States()
		return s["stays"].State == nomad.TaskStateRunning && s["ends"].State == nomad.TaskStateRunning
	})
	shutdown()
	<-ended
	data := filepath.Join(w.dir, "alloc", alloc.ID, "alloc/data")
	touch := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	touch("end")

	next := w.withProcesses()
	second, ended := next.runner(alloc), make(chan error, 1)
	if err := second.Restore(); err != nil {
		t.Fatal(err)
	}
	if uid, err := next.users.Assign("another"); err != nil || uid == 80000 || uid == 80001 {
		t.Errorf("Assign() = %d, %v; want a uid that no restored task has", uid, err)
	}
	go func() { ended <- second.Run(t.Context()) }()
	testpace.Until(t, "the end is reported", func() bool { return second.States()["ends"].State == nomad.TaskStateDead })
	touch("go")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s := second.States()
	if exitCode(s["ends"]) != 0 || exitCode(s["stays"]) != 5 || s["stays"].Restarts+s["ends"].Restarts != 0 {
		t.Errorf("exit codes %d and %d, restarts %d", exitCode(s["ends"]), exitCode(s["stays"]), s["stays"].Restarts)
	}
	if out := strings.Fields(w.file(alloc, "alloc/logs/stays.stdout.0")); len(out) != 2 {
		t.Errorf("log = %q, want one start and one end", out)
	}
	if err := second.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
