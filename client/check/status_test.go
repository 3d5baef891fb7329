package check_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// declared returns a task service with one script check, as a workload and its targets.
func declared(c nomad.ServiceCheck) (service.Workload, []*check.Target) {
	c.Name, c.Type, c.Command, c.Interval, c.Timeout = "up", "script", "/bin/probe", 10*time.Second, time.Second
	task := &nomad.Task{Name: "t", Services: []*nomad.Service{{Name: "web", Provider: "nomad", Checks: []*nomad.ServiceCheck{&c}},
		{Name: "plain", Provider: "nomad"}}}
	a := &nomad.Allocation{ID: "a1", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}}}
	group := service.OfGroup(a, &nomad.Node{ID: "n"}, "global", nil)
	w := service.OfTask(a, &nomad.Node{ID: "n"}, task, group.Env)
	return w, check.Targets(&w)
}

// described returns the registrations of a workload with their health.
func described(t *testing.T, s *check.Set, w *service.Workload) []*catalog.Registration {
	t.Helper()
	regs, err := w.Registrations()
	if err != nil {
		t.Fatal(err)
	}
	s.Describe(w, regs)
	return regs
}

// TestStatus runs checks with the exit codes of results, one letter for each status of the check after each result: p, w, c,
// and - for pending. Before R the agent restarts.
func TestStatus(t *testing.T) {
	codes := map[byte]int32{'p': 0, 'w': 1, 'c': 2}
	letters := map[message.CheckStatus]string{message.CheckSuccess: "p", message.CheckWarning: "w", message.CheckFailure: "c",
		message.CheckPending: "-"}
	health := map[string]catalog.Status{"p": catalog.Passing, "w": catalog.Warning, "c": catalog.Critical, "-": catalog.Critical}
	for name, tc := range map[string]struct {
		check   nomad.ServiceCheck
		results string
		want    string // the first one is before any result
	}{
		"each result":             {nomad.ServiceCheck{}, "pwcwp", "-pwcwp"},
		"initial passing":         {nomad.ServiceCheck{InitialStatus: "passing"}, "cp", "pcp"},
		"initial warning":         {nomad.ServiceCheck{InitialStatus: "warning"}, "wp", "wwp"},
		"initial critical":        {nomad.ServiceCheck{InitialStatus: "critical"}, "p", "cp"},
		"unknown initial":         {nomad.ServiceCheck{InitialStatus: "great"}, "p", "-p"},
		"passing after 3":         {nomad.ServiceCheck{SuccessBeforePassing: 3}, "ppppcpp", "---ppccc"},
		"a warning counts":        {nomad.ServiceCheck{SuccessBeforePassing: 2}, "wpcw", "--pcc"},
		"critical after 2":        {nomad.ServiceCheck{FailuresBeforeCritical: 2}, "pcpccc", "-ppppcc"},
		"warning before critical": {nomad.ServiceCheck{FailuresBeforeCritical: 3, FailuresBeforeWarning: 1}, "pcccc", "-pwwcc"},
		"no improvement":          {nomad.ServiceCheck{FailuresBeforeCritical: 2, FailuresBeforeWarning: 1, SuccessBeforePassing: 2}, "ccpcpp", "-wccccp"},
		"threshold and initial":   {nomad.ServiceCheck{InitialStatus: "passing", FailuresBeforeCritical: 2}, "ccp", "ppcp"},
		"restart keeps":           {nomad.ServiceCheck{FailuresBeforeCritical: 2}, "pcRcc", "-pppc"},
		"restart of critical":     {nomad.ServiceCheck{InitialStatus: "passing", SuccessBeforePassing: 2}, "cRpp", "pccp"},
	} {
		t.Run(name, func(t *testing.T) {
			w, targets := declared(tc.check)
			var s *check.Set
			stored := map[string][]*message.CheckQueryResult{}
			got := ""
			step := func() {
				one := letters[s.Results("a1")[targets[0].ID].Status]
				got += one
				regs := described(t, s, &w)
				if regs[0].Status != health[one] || len(regs[0].Checks) != 1 || regs[0].Checks[0].Status != health[one] || regs[1].Status != "" {
					t.Errorf("after %q: registrations are %s and %q, want %s and none", got, regs[0].Status, regs[1].Status, health[one])
				}
			}
			for i, part := range strings.Split(tc.results, "R") {
				watched(t, stored, func(set *check.Set, kept *store) {
					s = set
					var code, runs atomic.Int32
					s.Attach("a1", "t", exit(&code, &runs))
					s.Observe("a1", targets)
					if i == 0 {
						step()
					}
					for j := range len(part) {
						code.Store(codes[part[j]])
						for n := runs.Load(); runs.Load() == n; {
							time.Sleep(time.Second)
							synctest.Wait()
						}
						step()
					}
					for key, status := range kept.kept {
						if key == "a1_"+string(targets[0].ID) {
							stored["a1"] = []*message.CheckQueryResult{{ID: targets[0].ID, Status: status}}
						}
					}
				})
			}
			if got != tc.want {
				t.Errorf("statuses after %q: %q, want %q", tc.results, got, tc.want)
			}
		})
	}
}

// TestDescribe_Output checks that the health of a registration has the output of the last change, so that nothing is sent
// for another output, and that followers are called for a change only.
func TestDescribe_Output(t *testing.T) {
	watched(t, nil, func(s *check.Set, _ *store) {
		w, targets := declared(nomad.ServiceCheck{})
		var code, runs atomic.Int32
		s.Attach("a1", "t", exit(&code, &runs))
		if got := described(t, s, &w)[0]; got.Status != catalog.Critical || got.Checks != nil {
			t.Errorf("before Observe: %s with %d checks, want critical", got.Status, len(got.Checks))
		}
		s.Observe("a1", targets)
		var calls atomic.Int32
		end := s.Follow("a1", func() { calls.Add(1) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls of the follower after one change, want 1", calls.Load())
		}
		code.Store(2)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		before := described(t, s, &w)[0]
		if out := before.Checks[0].Output; out != "nomad: the script ended with exit code 2 and signal 0" || calls.Load() != 2 {
			t.Errorf("output %q after %d calls, want that of exit code 2 after 2", out, calls.Load())
		}
		code.Store(3)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if after := described(t, s, &w)[0]; !after.Equal(before) || calls.Load() != 2 {
			t.Errorf("%d calls and the output %q after the same status", calls.Load(), after.Checks[0].Output)
		}
		end()
		code.Store(0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d calls after the end, want 2", calls.Load())
		}
	})
}
