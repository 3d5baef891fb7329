package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The life cycle of tasks follows the job.
func TestTasks(t *testing.T) {
	a := harness.DevAgent(t)
	for name, test := range map[string]func(*testing.T, *cluster.Agent){
		"order":             tasksInOrder,
		"leader":            leaderEnds,
		"failed sibling":    siblingFails,
		"restart fail":      restartsRunOut,
		"restart delay":     restartsWait,
		"reschedule":        rescheduledAfterDelay,
		"force reschedule":  forcedReschedule,
		"kill":              killedAsAsked,
		"shutdown delay":    shutdownWaits,
		"in place":          updatedInPlace,
		"restart all tasks": restartedAll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

func tasksInOrder(t *testing.T, a *cluster.Agent) {
	say := func(word string) string { return "echo " + word + " >> $NOMAD_ALLOC_DIR/data/order; " }
	id, _ := harness.Run(t, a, harness.Job("order", `type = "batch"`, harness.Once+
		harness.Named("main", harness.Shell(say("main")+
			"until [ -e $NOMAD_ALLOC_DIR/data/go ] && grep -q side $NOMAD_ALLOC_DIR/data/order; do sleep 0.02; done;"+say("main-end")))+
		harness.Named("pre", harness.Shell("sleep 0.1; "+say("pre"), harness.Lifecycle("prestart", false)))+
		harness.Named("side", harness.Shell(say("side")+"sleep 3600", harness.Lifecycle("prestart", true), `kill_timeout = "1s"`))+
		harness.Named("post", harness.Shell("touch $NOMAD_ALLOC_DIR/data/go", harness.Lifecycle("poststart", false)))+
		harness.Named("stop", harness.Shell(say("stop"), harness.Lifecycle("poststop", false)))))
	al := harness.Await(t, a, id, "complete", 1)[0]
	words := strings.Fields(harness.SharedFile(t, a, al, "order"))
	last := -1
	for _, w := range []string{"pre", "main", "main-end", "stop"} {
		i := slices.Index(words, w)
		if i <= last {
			t.Fatalf("the tasks ran in the order %v: %q is not where it belongs", words, w)
		}
		last = i
	}
	if !slices.Contains(words, "side") {
		t.Errorf("the sidecar did not run: %v", words)
	}
	harness.Event(t, al, "side", "Main Tasks Dead")
	if al.TaskStates["side"].Failed {
		t.Error("the sidecar failed")
	}
}

func leaderEnds(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("leader", `type = "batch"`,
		harness.Once+harness.Named("lead", harness.Shell("sleep 0.1", "leader = true"))+harness.Named("other",
			harness.Shell("sleep 3600", `kill_timeout = "1s"`))))
	al := harness.Await(t, a, id, "complete", 1)[0]
	harness.Event(t, al, "other", api.TaskLeaderDead)
}

func siblingFails(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("sibling", `type = "batch"`,
		harness.Once+harness.Named("bad", harness.Shell("sleep 0.1; exit 3"))+harness.Named("other",
			harness.Shell("sleep 3600", `kill_timeout = "1s"`))))
	al := harness.Await(t, a, id, "failed", 1)[0]
	if ev := harness.Event(t, al, "other", api.TaskSiblingFailed); ev.Details["failed_sibling"] != "bad" {
		t.Errorf("event %+v names no task bad", ev)
	}
	if !al.TaskStates["bad"].Failed || al.TaskStates["other"].Failed {
		t.Errorf("failed: bad %v, other %v, want only bad", al.TaskStates["bad"].Failed, al.TaskStates["other"].Failed)
	}
}

func restartsRunOut(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 2\n interval = \"10m\"\n delay = \"10ms\"\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n"
	id, _ := harness.Run(t, a, harness.Job("restart-fail", `type = "batch"`, policy+harness.Shell("echo once; exit 1")))
	al := harness.Await(t, a, id, "failed", 1)[0]
	if n := al.TaskStates["t"].Restarts; n != 2 {
		t.Errorf("%d restarts, want 2", n)
	}
	if text := harness.Log(a, al); text != "once\nonce\nonce\n" {
		t.Errorf("the task wrote %q, want three lines", text)
	}
	if ev := harness.Event(t, al, "t", api.TaskTerminated); ev.Details["exit_code"] != "1" {
		t.Errorf("exit code %q, want 1", ev.Details["exit_code"])
	}
	harness.Event(t, al, "t", api.TaskNotRestarting)
}

func restartsWait(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 1\n interval = \"15s\"\n delay = \"10ms\"\n mode = \"delay\"\n}\n"
	id, _ := harness.Run(t, a, harness.Job("restart-delay", "", policy+harness.Shell("echo once; exit 1")))
	// Only the last ten events are kept: the first start may be missing.
	quick, slow := false, false
	harness.Within(t, harness.Patience, "some restarts at once and others after the interval of 15 s", func() bool {
		for _, al := range append(harness.Allocs(t, a, id, "running"), harness.Allocs(t, a, id, "pending")...) {
			state := al.TaskStates["t"]
			if state == nil {
				continue
			}
			due := time.Time{}
			for _, ev := range state.Events {
				at := time.Unix(0, ev.Time)
				switch ev.Type {
				case api.TaskRestarting:
					delay := time.Duration(ev.StartDelay)
					quick, slow, due = quick || delay < 100*time.Millisecond, slow || delay > time.Second, at.Add(delay)
				case api.TaskStarted:
					if at.Before(due) {
						t.Fatalf("started at %v, before %v", at, due)
					}
				}
			}
			if quick && slow && state.Restarts >= 3 {
				return true
			}
		}
		return false
	})
	harness.Stop(t, a, id)
}

func rescheduledAfterDelay(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 1\n interval = \"1h\"\n delay = \"15s\"\n delay_function = \"constant\"\n unlimited = false\n}\n"
	id, _ := harness.Run(t, a, harness.Job("reschedule", `type = "batch"`, policy+harness.Shell("exit 1")))
	first := harness.Await(t, a, id, "failed", 1)[0]
	var follow *api.Evaluation
	harness.Within(t, harness.Patience, "the evaluation that follows", func() bool {
		info, _, err := a.Client.Allocations().Info(first.ID, nil)
		if err != nil || info.FollowupEvalID == "" {
			return false
		}
		follow, _, err = a.Client.Evaluations().Info(info.FollowupEvalID, nil)
		return err == nil
	})
	ended := first.TaskStates["t"].FinishedAt // the servers are notified later
	if wait := follow.WaitUntil.Sub(ended); follow.TriggeredBy != "alloc-reschedule" || wait != 15*time.Second {
		t.Errorf("evaluation by %s after %s, want alloc-reschedule after 15 s", follow.TriggeredBy, wait)
	}
	second := harness.Await(t, a, id, "failed", 2)
	slices.SortFunc(second, func(x, y *api.AllocationListStub) int { return int(x.CreateIndex) - int(y.CreateIndex) })
	info, _, err := a.Client.Allocations().Info(second[1].ID, nil)
	if err != nil || info.PreviousAllocation != first.ID || info.RescheduleTracker == nil || len(info.RescheduleTracker.Events) != 1 {
		t.Fatalf("second allocation after %q with %+v, %v", info.PreviousAllocation, info.RescheduleTracker, err)
	}
	if gap := time.Unix(0, info.CreateTime).Sub(ended); gap < 15*time.Second {
		t.Errorf("rescheduled after %s, want 15 s", gap)
	}
	if info.FollowupEvalID != "" {
		t.Errorf("evaluation %s would make a third, where one attempt is allowed", info.FollowupEvalID)
	}
}

func forcedReschedule(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("forced", `type = "batch"`, harness.Once+harness.Shell("exit 1")))
	harness.Await(t, a, id, "failed", 1)
	eval, _, err := a.Client.Jobs().ForceEvaluate(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.Evaluated(t, a, eval)
	harness.Await(t, a, id, "failed", 1)
	if _, _, err = a.Client.Jobs().EvaluateWithOpts(id, api.EvalOptions{ForceReschedule: true}, nil); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, a, id, "failed", 2)
}

func killedAsAsked(t *testing.T, a *cluster.Agent) {
	mark := filepath.Join(harness.TempDir(t), "mark")
	id, _ := harness.Run(t, a, harness.Job("kill", "",
		harness.Shell("trap 'echo got >> "+mark+"' USR1; echo $$; while true; do sleep 0.05; done",
			`kill_signal = "SIGUSR1"`, `kill_timeout = "8s"`))) // time for the trap, on a busy machine too
	al := harness.Await(t, a, id, "running", 1)[0]
	pid := strings.TrimSpace(harness.WaitLog(t, a, al))
	harness.Stop(t, a, id)
	al = harness.Await(t, a, id, "complete", 1)[0]
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("process %s lives", pid)
	}
	if got := harness.FileText(t, mark); got != "got\n" {
		t.Errorf("the task got its signal %q, want once", got)
	}
	killing, killed := harness.Event(t, al, "t", api.TaskKilling), harness.Event(t, al, "t", api.TaskTerminated)
	if took := time.Duration(killed.Time - killing.Time); took < 8*time.Second || took > harness.Patience {
		t.Errorf("killed after %s, want 8 s", took)
	}
	if killed.Details["signal"] != "9" {
		t.Errorf("ended by signal %s, want 9", killed.Details["signal"])
	}
}

func shutdownWaits(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("shutdown", "", harness.Shell("exec sleep 3600", `shutdown_delay = "700ms"`)))
	harness.Await(t, a, id, "running", 1)
	harness.Stop(t, a, id)
	al := harness.Await(t, a, id, "complete", 1)[0]
	wait, end := harness.Event(t, al, "t", "Waiting for shutdown delay"), harness.Event(t, al, "t", api.TaskTerminated)
	if took := time.Duration(end.Time - wait.Time); took < 700*time.Millisecond {
		t.Errorf("ended %s after it was asked to, want 700 ms", took)
	}
	// A stop without the delay.
	id, _ = harness.Run(t, a, harness.Job("shutdown-now", "", harness.Shell("exec sleep 3600", `shutdown_delay = "1h"`)))
	harness.Await(t, a, id, "running", 1)
	if _, _, err := a.Client.Jobs().DeregisterOpts(id, &api.DeregisterOptions{NoShutdownDelay: true}, nil); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, a, id, "complete", 1)
}

func updatedInPlace(t *testing.T, a *cluster.Agent) {
	const script = "echo $$; exec sleep 3600"
	id, _ := harness.Run(t, a, harness.Job("inplace", "", harness.Shell(script)))
	al := harness.Await(t, a, id, "running", 1)[0]
	pid := harness.WaitLog(t, a, al)
	version := func(al *api.AllocationListStub) uint64 { return al.JobVersion }
	harness.Run(t, a, harness.Job("inplace", "priority = 60", "restart {\n attempts = 9\n interval = \"1h\"\n}\n"+harness.Shell(script)))
	harness.Within(t, harness.Patience, "the new version in the same allocation",
		func() bool { return version(harness.Await(t, a, id, "running", 1)[0]) == 1 })
	now := harness.Await(t, a, id, "running", 1)[0]
	if now.ID != al.ID || harness.Log(a, now) != pid {
		t.Errorf("allocation %s with process %s, was %s with %s", now.ID, harness.Log(a, now), al.ID, pid)
	}
	harness.Run(t, a, harness.Job("inplace", "", harness.Shell(script, "env {\n A = \"b\"\n}")))
	harness.Await(t, a, id, "complete", 1)
	if next := harness.Await(t, a, id, "running", 1)[0]; next.ID == al.ID || version(next) != 2 {
		t.Errorf("allocation %s of version %d runs after a destructive update", next.ID, version(next))
	}
	harness.Stop(t, a, id)
}

func restartedAll(t *testing.T, a *cluster.Agent) {
	file := filepath.Join(harness.TempDir(t), "starts")
	say := func(word string) string { return "echo " + word + " >> " + file + "; " }
	id, _ := harness.Run(t, a, harness.Job("restart-all", "",
		harness.Named("pre", harness.Shell(say("pre"), harness.Lifecycle("prestart", false)))+harness.Shell(say("main")+"exec sleep 3600")))
	al := harness.Await(t, a, id, "running", 1)[0]
	ref := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	want := func(words ...string) {
		t.Helper()
		harness.Within(t, harness.Patience, fmt.Sprintf("starts %v", words), func() bool {
			text, _ := os.ReadFile(file) // it does not exist before the first start
			return slices.Equal(strings.Fields(string(text)), words)
		})
	}
	want("pre", "main")
	runs := func(restarts uint64) {
		t.Helper()
		harness.Within(t, harness.Patience, "the task is reported as running", func() bool {
			s := harness.Await(t, a, id, "running", 1)[0].TaskStates["t"]
			return s.Restarts == restarts && s.State == "running"
		})
	}
	runs(0)
	if err := a.Client.Allocations().Restart(ref, "", nil); err != nil {
		t.Fatalf("Restart() = %v", err)
	}
	want("pre", "main", "main")
	runs(1)
	if err := a.Client.Allocations().RestartAllTasks(ref, nil); err != nil {
		t.Fatalf("RestartAllTasks() = %v", err)
	}
	want("pre", "main", "main", "pre", "main")
	if err := a.Client.Allocations().Restart(ref, "nosuch", nil); harness.StatusCode(err) != 400 {
		t.Errorf("Restart(unknown task) = %v, want 400", err)
	}
	harness.Stop(t, a, id)
}
