package scheduler_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

var update = flag.Bool("update", false, "rewrite the plans in testdata")

// TestCanaryScripts runs testdata/canary/*.txt. A script is a list of steps. The lines after "eval" that begin with
// ">" are the plan of the evaluation; -update rewrites them.
//
//	nodes 3                       adds ready nodes
//	job count=3 canary=1          registers a version; further calls change the given fields and the command
//	eval                          processes an evaluation of the job
//	healthy | unhealthy [canary]  reports the live allocations of the deployment, or its canaries
//	failed canary | failed old    reports that allocations failed
//	down 0                        marks the node of the live allocation j.g[0] of version 0 as down
//	promote | fail | pause        changes the deployment
func TestCanaryScripts(t *testing.T) {
	testScripts(t, "canary", func(t *testing.T, text string) string { return run(text, newScript(t).step) })
}

// testScripts runs the scripts of a directory of testdata, each in its own world, and compares them with their results.
func testScripts(t *testing.T, dir string, run func(t *testing.T, text string) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, string(raw), run(t, string(raw)))
		})
	}
}

// golden compares a script with its result, or rewrites it.
func golden(t *testing.T, file, raw, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != raw {
		t.Errorf("the script is\n%s\nits result is\n%s", raw, got)
	}
}

// script is a world that text changes.
type script struct {
	*world
	command int // the next command of the task
}

func newScript(t *testing.T) *script { return &script{world: newWorld(t)} }

// run runs the steps and returns the text with the actual plans.
func run(text string, step func(verb string, args []string) []string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		for _, l := range step(words[0], words[1:]) {
			out.WriteString("> " + l + "\n")
		}
	}
	return out.String()
}

// step runs one step. It returns the plan of an evaluation.
func (s *script) step(verb string, args []string) []string {
	switch verb {
	case "nodes":
		for i := range s.number(args[0]) {
			s.addNode(fmt.Sprintf("n%d", i+1))
		}
	case "job":
		s.job(args)
	case "eval":
		return s.plan()
	case "healthy":
		s.health(true, args)
	case "unhealthy":
		s.health(false, args)
	case "failed":
		s.report(nomad.AllocClientStatusFailed, nil, s.chosen(args)...)
	case "down":
		for _, a := range s.ofVersion(0) {
			if a.Index() == s.number(args[0]) {
				s.nodes[a.NodeID].Status = nomad.NodeStatusDown
			}
		}
	case "promote":
		s.promote()
	case "fail":
		s.latest().Status = nomad.DeploymentStatusFailed
	case "pause":
		s.latest().Status = nomad.DeploymentStatusPaused
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
	return nil
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// job registers the job, or a changed copy.
func (s *script) job(args []string) {
	edit := func(j *nomad.Job) {
		u := j.TaskGroups[0].Update
		s.command++
		j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": fmt.Sprint("v", s.command)}
		for _, arg := range args {
			key, value, _ := strings.Cut(arg, "=")
			switch key {
			case "count":
				j.TaskGroups[0].Count = s.number(value)
			case "canary":
				u.Canary = s.number(value)
			case "max_parallel":
				u.MaxParallel = s.number(value)
			case "auto_promote":
				u.AutoPromote = true
			case "command":
				j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": value}
			default:
				s.t.Fatalf("unknown field %q", arg)
			}
		}
	}
	if s.jobs["j"] != nil {
		s.change(edit)
		return
	}
	s.register(job(nomad.JobTypeService, 1, rolling(1), func(j *nomad.Job) {
		j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 0, DelayFunction: "constant"}
		edit(j)
	}))
}

func (s *script) latest() *nomad.Deployment { return s.LatestDeployment(nil, "", "j") }

// chosen returns the live canaries, the allocations of version 0, or all of the latest deployment.
func (s *script) chosen(args []string) []*nomad.Allocation {
	all := s.live()
	return slices.DeleteFunc(all, func(a *nomad.Allocation) bool {
		switch {
		case len(args) == 0:
			return a.DeploymentID != s.latest().ID
		case args[0] == "canary":
			return !a.IsCanary()
		}
		return a.Job.Version != 0
	})
}

func (s *script) health(healthy bool, args []string) {
	s.report(nomad.AllocClientStatusRunning, &healthy, s.chosen(args)...)
	n := 0
	for _, a := range s.allocs {
		if a.DeploymentID == s.latest().ID && a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy {
			n++
		}
	}
	s.latest().TaskGroups["g"].HealthyAllocs = n
}

func (s *script) promote() {
	s.latest().TaskGroups["g"].Promoted = true
	for _, a := range s.live() {
		if a.IsCanary() {
			out, status := *a, *a.DeploymentStatus
			status.Canary = false
			out.DeploymentStatus = &status
			s.set(&out)
		}
	}
}

// plan processes an evaluation and returns the changes, sorted, and the state of the deployment.
func (s *script) plan() []string {
	s.now = s.now.Add(time.Minute)
	before, plans := map[string]*nomad.Allocation{}, len(s.plans)
	for id, a := range s.allocs {
		before[id] = a
	}
	s.process()
	if len(s.plans) == plans {
		return []string{"nothing"}
	}
	var out []string
	for id, a := range s.allocs {
		was := before[id]
		kind := ""
		if a.IsCanary() {
			kind = " canary"
		}
		switch {
		case was == nil:
			out = append(out, fmt.Sprintf("place %s version %d%s", a.Name, a.Job.Version, kind))
		case was.DesiredStatus != a.DesiredStatus:
			out = append(out, fmt.Sprintf("stop %s version %d%s: %s", a.Name, a.Job.Version, kind, a.DesiredDescription))
		case was.Job.Version != a.Job.Version:
			out = append(out, fmt.Sprintf("update %s to version %d", a.Name, a.Job.Version))
		}
	}
	slices.Sort(out)
	d := s.latest()
	g := d.TaskGroups["g"]
	return append(out, fmt.Sprintf("deployment of version %d %s: %s: %d desired, %d canaries", d.JobVersion, d.Status, d.StatusDescription,
		g.DesiredTotal, g.DesiredCanaries))
}
