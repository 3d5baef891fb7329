package allocrunner_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A program in a task has the environment of a new start of the task.
func TestExec(t *testing.T) {
	w := processes(t)
	alloc := sized(allocation(nomad.JobTypeService, script("raw", rawexec.Name, "exec sleep 600"),
		script("confined", exec2.Name, "exec sleep 600")))
	for _, task := range alloc.Job.TaskGroups[0].Tasks {
		task.Env = map[string]string{"GREETING": "hi from ${node.unique.name}"}
	}
	r := w.runner(alloc)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	defer func() {
		if err := errors.Join(r.Destroy(t.Context()), <-ended); err != nil {
			t.Error(err)
		}
		if _, err := exec(t, r, "raw"); !errors.Is(err, taskrunner.ErrNotRunning) {
			t.Errorf("after the end: %v", err)
		}
	}()
	testpace.Until(t, "both run", func() bool {
		for _, name := range []string{"raw", "confined"} {
			if s := r.States()[name]; s == nil || s.State != nomad.TaskStateRunning {
				return false
			}
		}
		return true
	})
	for _, name := range []string{"raw", "confined"} {
		if out, err := exec(t, r, name); out != name+" hi from n1\n" || err != nil {
			t.Errorf("exec in %s: %q, %v", name, out, err)
		}
	}
	if _, err := exec(t, r, "none"); !errors.Is(err, allocrunner.ErrNoTask) {
		t.Errorf("exec in an unknown task: %v", err)
	}
}

func exec(t *testing.T, r *allocrunner.Runner, task string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	exit, err := r.Exec(t.Context(), task,
		&drivers.ExecOptions{Command: []string{"sh", "-c", `echo "$NOMAD_TASK_NAME $GREETING"; exit 3`}, Stdin: strings.NewReader(""),
			Stdout: &out, Stderr: &out})
	if err == nil && exit.ExitCode != 3 {
		t.Errorf("exit code %d, want 3", exit.ExitCode)
	}
	return out.String(), err
}

// A driver without exec support returns an error.
func TestNoExec(t *testing.T) {
	w := newWorld(t)
	alloc := allocation(nomad.JobTypeService, mockTask("main", map[string]any{"run_for": "1h"}))
	r := w.runner(alloc)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	testpace.Until(t, "the task runs", func() bool {
		s := r.States()["main"]
		return s != nil && s.State == nomad.TaskStateRunning
	})
	if _, err := exec(t, r, "main"); !errors.Is(err, drivers.ErrNoExec) {
		t.Errorf("exec in a mock task: %v", err)
	}
	if err := errors.Join(r.Destroy(t.Context()), <-ended); err != nil {
		t.Error(err)
	}
}
