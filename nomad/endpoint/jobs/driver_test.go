package jobs

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// exec2Job returns a canonical job with one exec2 task.
func exec2Job(change func(*nomad.Task)) *nomad.Job {
	t := &nomad.Task{Name: "t", Driver: "exec2", Config: map[string]any{"command": "true"}}
	change(t)
	job := &nomad.Job{ID: "j", Name: "j", Region: "global", Type: nomad.JobTypeBatch, Priority: 50, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1, Tasks: []*nomad.Task{t}}}}
	jobrules.Canonicalize(job)
	return job
}

func TestValidateKnowsTheDriver(t *testing.T) {
	const place = `job "j", group "g", task "t": `
	for name, tc := range map[string]struct {
		change func(*nomad.Task)
		want   []string // nothing: the job is fine
	}{
		"fine":           {func(*nomad.Task) {}, nil},
		"references":     {func(t *nomad.Task) { t.Config["unveil"] = []any{"r:${NOMAD_TASK_DIR}"} }, nil},
		"another driver": {func(t *nomad.Task) { t.Driver, t.Config["unveil"] = "raw_exec", 7 }, nil},
		"two faults": {func(t *nomad.Task) { t.Config["unveil"], t.Config["pids_limit"] = []any{"q:/etc"}, 0 },
			[]string{place + `config of exec2: pids_limit: 0`, place + `config of exec2: unveil: "q:/etc"`}},
		"unknown key":   {func(t *nomad.Task) { t.Config["unveils"] = "x" }, []string{place + `unknown argument "unveils"`}},
		"no command":    {func(t *nomad.Task) { t.Config = nil }, []string{place + "config: ", `"command"`}},
		"limit":         {func(t *nomad.Task) { t.Config["ulimit"] = []any{map[string]any{"files": 1}} }, []string{place + `config of exec2: ulimit: "files"`}},
		"lent user":     {func(t *nomad.Task) { t.User = "nomad-80000" }, []string{place + `user "nomad-80000" is assigned by clients`}},
		"no change":     {func(t *nomad.Task) { t.User = "4294967295" }, []string{place + `user "4294967295" is not a uid`}},
		"overflow":      {func(t *nomad.Task) { t.User = "18446744073709551616" }, []string{place + `user "18446744073709551616" is not a uid`}},
		"highest":       {func(t *nomad.Task) { t.User = "4294967294" }, nil},
		"named nomad-x": {func(t *nomad.Task) { t.User = "nomad-web" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(exec2Job(tc.change))
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("validate() = %v, want %q", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("validate() = %v, want %q", err, want)
				}
			}
		})
	}
}

func TestWarningOfRoot(t *testing.T) {
	for user, want := range map[string]bool{"root": true, "0": true, "nobody": false, "": false} {
		got := strings.Join(warnings(exec2Job(func(t *nomad.Task) { t.User = user })), "\n")
		if strings.Contains(got, "allow_root") != want {
			t.Errorf("user %q: warnings %q", user, got)
		}
	}
}

func TestLandlockConstraint(t *testing.T) {
	job := exec2Job(func(t *nomad.Task) { t.Config["require_abi"] = 6 })
	more := codec.Copy(job.TaskGroups[0].Tasks[0])
	more.Name, more.Config["require_abi"] = "more", 7
	other := codec.Copy(more)
	other.Name, other.Driver, other.Config["require_abi"] = "other", "mock_driver", 9
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, more, other)
	addImplicitConstraints(job)
	got := job.TaskGroups[0].Constraints
	if len(got) != 1 || got[0].LTarget != "${attr.driver.exec2.landlock.abi}" || got[0].Operand != ">=" || got[0].RTarget != "7" {
		t.Errorf("constraints = %+v, want ABI 7", got)
	}
}
