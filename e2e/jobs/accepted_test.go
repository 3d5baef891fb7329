package jobs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/jobspec"
)

// accepted is a job file of testdata/accepted. Its first comments describe it:
//
//	# What the file has.
//	# run                 the job must run, and all of its tasks must succeed
//	# warns: text         the servers accept it with a warning that contains the text
type accepted struct {
	name, warns string
	run         bool
	job         *api.Job
}

// readAccepted parses a job file.
func readAccepted(t *testing.T, path string) accepted {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := accepted{name: strings.TrimSuffix(filepath.Base(path), ".nomad.hcl")}
	for line := range strings.Lines(string(text)) {
		comment, found := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !found {
			break
		}
		out.run = out.run || comment == "run"
		if text, found := strings.CutPrefix(comment, "warns: "); found {
			out.warns = text
		}
	}
	if out.job, err = jobspec.Parse(jobspec.Config{Filename: path, Source: text}); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if *out.job.ID != out.name {
		t.Errorf("%s has the job %s", path, *out.job.ID)
	}
	return out
}

// TestAcceptedFiles checks job files, each with another feature, with one agent: the agent accepts and plans all of them,
// and runs those that can run anywhere.
func TestAcceptedFiles(t *testing.T) {
	harness.NeedsRoot(t)
	paths, err := filepath.Glob("testdata/accepted/*.nomad.hcl")
	if err != nil || len(paths) < 60 {
		t.Fatalf("%d job files, %v", len(paths), err)
	}
	a := harness.DevAgent(t)
	var runs []accepted
	for _, path := range paths {
		f := readAccepted(t, path)
		t.Run(f.name, func(t *testing.T) { checkAccepted(t, a, f) })
		if f.run {
			runs = append(runs, f)
		}
	}
	for _, f := range runs { // after the plans, for which all cores are free
		if _, _, err := a.Client.Jobs().Register(f.job, nil); err != nil {
			t.Fatalf("%s: register: %v", f.name, err)
		}
	}
	for _, f := range runs {
		harness.Within(t, harness.Patience, f.name+" is complete", func() bool { return isComplete(t, a, f.name) })
	}
}

// privilegeWarning is the warning about jobs of raw_exec, which every caller may run here.
var privilegeWarning = regexp.MustCompile(`job "[^"]+": the servers added privileged = true[^\n]*\n?`)

// checkAccepted validates and plans a job.
func checkAccepted(t *testing.T, a *cluster.Agent, f accepted) {
	valid, _, err := a.Client.Jobs().Validate(f.job, nil)
	if err != nil || len(valid.ValidationErrors) > 0 || valid.Error != "" {
		t.Fatalf("Validate() = %+v, %v", valid, err)
	}
	plan, _, err := a.Client.Jobs().Plan(f.job, true, nil)
	if err != nil {
		t.Fatalf("Plan() = %v", err)
	}
	if plan.Diff == nil || plan.Diff.Type != "Added" || len(plan.Diff.TaskGroups) == 0 {
		t.Errorf("Plan() has the diff %+v", plan.Diff)
	}
	for from, got := range map[string]string{"Validate": valid.Warnings, "Plan": plan.Warnings} {
		got = privilegeWarning.ReplaceAllString(got, "")
		if f.warns == "" && got != "" || !strings.Contains(got, f.warns) {
			t.Errorf("%s() warns %q, want %q", from, got, f.warns)
		}
	}
	if f.run && len(plan.FailedTGAllocs) > 0 {
		t.Errorf("Plan() cannot place %+v", plan.FailedTGAllocs)
	}
}

// isComplete reports whether all allocations of a job are complete. It fails the test for a failed one.
func isComplete(t *testing.T, a *cluster.Agent, job string) bool {
	t.Helper()
	list, _, err := a.Client.Jobs().Allocations(job, false, nil)
	if err != nil || len(list) == 0 {
		return false
	}
	for _, al := range list {
		if al.ClientStatus == "failed" || al.ClientStatus == "lost" {
			text, _ := harness.Command(t, a, "alloc", "status", al.ID)
			t.Fatalf("%s: the allocation is %s:\n%s", job, al.ClientStatus, text)
		}
		if al.ClientStatus != "complete" {
			return false
		}
	}
	return true
}
