package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// The life cycle of tasks follows the job.
func TestTasks(t *testing.T) {
	a := devAgent(t)
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

// once is the part of a group that disables all retries.
const once = `
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
`

// named renames the task of a group.
func named(name, task string) string {
	return strings.Replace(task, `task "t"`, fmt.Sprintf("task %q", name), 1)
}

func lifecycle(hook string, sidecar bool) string {
	return fmt.Sprintf("lifecycle {\n hook = %q\n sidecar = %v\n}\n", hook, sidecar)
}

// shared returns a file in the directory that the tasks of an allocation share.
func shared(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, name string) string {
	t.Helper()
	in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, filepath.Join("alloc/data", name), nil)
	if err != nil {
		t.Fatalf("Cat(%s) = %v", name, err)
	}
	defer in.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// events lists the types of a task's events.
func events(al *api.AllocationListStub, task string) []string {
	var out []string
	for _, ev := range al.TaskStates[task].Events {
		out = append(out, ev.Type)
	}
	return out
}

// event returns a task's last event of a type.
func event(t *testing.T, al *api.AllocationListStub, task, kind string) *api.TaskEvent {
	t.Helper()
	for _, ev := range slices.Backward(al.TaskStates[task].Events) {
		if ev.Type == kind {
			return ev
		}
	}
	t.Fatalf("task %s has no event %q: %v", task, kind, events(al, task))
	return nil
}

func tasksInOrder(t *testing.T, a *cluster.Agent) {
	say := func(word string) string { return "echo " + word + " >> $NOMAD_ALLOC_DIR/data/order; " }
	id, _ := run(t, a, job("order", `type = "batch"`, once+
		named("main", shell(say("main")+"until [ -e $NOMAD_ALLOC_DIR/data/go ] && grep -q side $NOMAD_ALLOC_DIR/data/order; do sleep 0.02; done;"+say("main-end")))+
		named("pre", shell("sleep 0.1; "+say("pre"), lifecycle("prestart", false)))+
		named("side", shell(say("side")+"sleep 3600", lifecycle("prestart", true), `kill_timeout = "1s"`))+
		named("post", shell("touch $NOMAD_ALLOC_DIR/data/go", lifecycle("poststart", false)))+
		named("stop", shell(say("stop"), lifecycle("poststop", false)))))
	al := await(t, a, id, "complete", 1)[0]
	words := strings.Fields(shared(t, a, al, "order"))
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
	event(t, al, "side", "Main Tasks Dead")
	if al.TaskStates["side"].Failed {
		t.Error("the sidecar failed")
	}
}

func leaderEnds(t *testing.T, a *cluster.Agent) {
	id, _ := run(t, a, job("leader", `type = "batch"`, once+named("lead", shell("sleep 0.1", "leader = true"))+named("other", shell("sleep 3600", `kill_timeout = "1s"`))))
	al := await(t, a, id, "complete", 1)[0]
	event(t, al, "other", api.TaskLeaderDead)
}

func siblingFails(t *testing.T, a *cluster.Agent) {
	id, _ := run(t, a, job("sibling", `type = "batch"`, once+named("bad", shell("sleep 0.1; exit 3"))+named("other", shell("sleep 3600", `kill_timeout = "1s"`))))
	al := await(t, a, id, "failed", 1)[0]
	if ev := event(t, al, "other", api.TaskSiblingFailed); ev.Details["failed_sibling"] != "bad" {
		t.Errorf("event %+v names no task bad", ev)
	}
	if !al.TaskStates["bad"].Failed || al.TaskStates["other"].Failed {
		t.Errorf("failed: bad %v, other %v, want only bad", al.TaskStates["bad"].Failed, al.TaskStates["other"].Failed)
	}
}

func restartsRunOut(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 2\n interval = \"10m\"\n delay = \"10ms\"\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n"
	id, _ := run(t, a, job("restart-fail", `type = "batch"`, policy+shell("echo once; exit 1")))
	al := await(t, a, id, "failed", 1)[0]
	if n := al.TaskStates["t"].Restarts; n != 2 {
		t.Errorf("%d restarts, want 2", n)
	}
	if text := log(a, al); text != "once\nonce\nonce\n" {
		t.Errorf("the task wrote %q, want three lines", text)
	}
	if ev := event(t, al, "t", api.TaskTerminated); ev.Details["exit_code"] != "1" {
		t.Errorf("exit code %q, want 1", ev.Details["exit_code"])
	}
	event(t, al, "t", api.TaskNotRestarting)
}

func restartsWait(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 1\n interval = \"15s\"\n delay = \"10ms\"\n mode = \"delay\"\n}\n"
	id, _ := run(t, a, job("restart-delay", "", policy+shell("echo once; exit 1")))
	// Only the last ten events are kept: the first start may be missing.
	quick, slow := false, false
	within(t, patience, "some restarts at once and others after the interval of 15 s", func() bool {
		for _, al := range append(allocsOf(t, a, id, "running"), allocsOf(t, a, id, "pending")...) {
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
	stop(t, a, id)
}

func rescheduledAfterDelay(t *testing.T, a *cluster.Agent) {
	policy := "restart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 1\n interval = \"1h\"\n delay = \"15s\"\n delay_function = \"constant\"\n unlimited = false\n}\n"
	id, _ := run(t, a, job("reschedule", `type = "batch"`, policy+shell("exit 1")))
	first := await(t, a, id, "failed", 1)[0]
	var follow *api.Evaluation
	within(t, patience, "the evaluation that follows", func() bool {
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
	second := await(t, a, id, "failed", 2)
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
	id, _ := run(t, a, job("forced", `type = "batch"`, once+shell("exit 1")))
	await(t, a, id, "failed", 1)
	eval, _, err := a.Client.Jobs().ForceEvaluate(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	evaluated(t, a, eval)
	await(t, a, id, "failed", 1)
	if _, _, err = a.Client.Jobs().EvaluateWithOpts(id, api.EvalOptions{ForceReschedule: true}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, a, id, "failed", 2)
}

func killedAsAsked(t *testing.T, a *cluster.Agent) {
	mark := filepath.Join(tempDir(t), "mark")
	id, _ := run(t, a, job("kill", "", shell("trap 'echo got >> "+mark+"' USR1; echo $$; while true; do sleep 0.05; done",
		`kill_signal = "SIGUSR1"`, `kill_timeout = "8s"`))) // time for the trap, on a busy machine too
	al := await(t, a, id, "running", 1)[0]
	pid := strings.TrimSpace(logOf(t, a, al))
	stop(t, a, id)
	al = await(t, a, id, "complete", 1)[0]
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("process %s lives", pid)
	}
	if got := fileText(t, mark); got != "got\n" {
		t.Errorf("the task got its signal %q, want once", got)
	}
	killing, killed := event(t, al, "t", api.TaskKilling), event(t, al, "t", api.TaskTerminated)
	if took := time.Duration(killed.Time - killing.Time); took < 8*time.Second || took > patience {
		t.Errorf("killed after %s, want 8 s", took)
	}
	if killed.Details["signal"] != "9" {
		t.Errorf("ended by signal %s, want 9", killed.Details["signal"])
	}
}

func shutdownWaits(t *testing.T, a *cluster.Agent) {
	id, _ := run(t, a, job("shutdown", "", shell("exec sleep 3600", `shutdown_delay = "700ms"`)))
	await(t, a, id, "running", 1)
	stop(t, a, id)
	al := await(t, a, id, "complete", 1)[0]
	wait, end := event(t, al, "t", "Waiting for shutdown delay"), event(t, al, "t", api.TaskTerminated)
	if took := time.Duration(end.Time - wait.Time); took < 700*time.Millisecond {
		t.Errorf("ended %s after it was asked to, want 700 ms", took)
	}
	// A stop without the delay.
	id, _ = run(t, a, job("shutdown-now", "", shell("exec sleep 3600", `shutdown_delay = "1h"`)))
	await(t, a, id, "running", 1)
	if _, _, err := a.Client.Jobs().DeregisterOpts(id, &api.DeregisterOptions{NoShutdownDelay: true}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, a, id, "complete", 1)
}

func stop(t *testing.T, a *cluster.Agent, job string) {
	t.Helper()
	if _, _, err := a.Client.Jobs().Deregister(job, false, nil); err != nil {
		t.Fatalf("Deregister(%s) = %v", job, err)
	}
}

func updatedInPlace(t *testing.T, a *cluster.Agent) {
	const script = "echo $$; exec sleep 3600"
	id, _ := run(t, a, job("inplace", "", shell(script)))
	al := await(t, a, id, "running", 1)[0]
	pid := logOf(t, a, al)
	version := func(al *api.AllocationListStub) uint64 { return al.JobVersion }
	run(t, a, job("inplace", "priority = 60", "restart {\n attempts = 9\n interval = \"1h\"\n}\n"+shell(script)))
	within(t, patience, "the new version in the same allocation", func() bool { return version(await(t, a, id, "running", 1)[0]) == 1 })
	now := await(t, a, id, "running", 1)[0]
	if now.ID != al.ID || log(a, now) != pid {
		t.Errorf("allocation %s with process %s, was %s with %s", now.ID, log(a, now), al.ID, pid)
	}
	run(t, a, job("inplace", "", shell(script, "env {\n A = \"b\"\n}")))
	await(t, a, id, "complete", 1)
	if next := await(t, a, id, "running", 1)[0]; next.ID == al.ID || version(next) != 2 {
		t.Errorf("allocation %s of version %d runs after a destructive update", next.ID, version(next))
	}
	stop(t, a, id)
}

func restartedAll(t *testing.T, a *cluster.Agent) {
	file := filepath.Join(tempDir(t), "starts")
	say := func(word string) string { return "echo " + word + " >> " + file + "; " }
	id, _ := run(t, a, job("restart-all", "", named("pre", shell(say("pre"), lifecycle("prestart", false)))+shell(say("main")+"exec sleep 3600")))
	al := await(t, a, id, "running", 1)[0]
	ref := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	want := func(words ...string) {
		t.Helper()
		within(t, patience, fmt.Sprintf("starts %v", words), func() bool {
			text, _ := os.ReadFile(file) // it does not exist before the first start
			return slices.Equal(strings.Fields(string(text)), words)
		})
	}
	want("pre", "main")
	runs := func(restarts uint64) {
		t.Helper()
		within(t, patience, "the task is reported as running", func() bool {
			s := await(t, a, id, "running", 1)[0].TaskStates["t"]
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
	if err := a.Client.Allocations().Restart(ref, "nosuch", nil); statusCode(err) != 400 {
		t.Errorf("Restart(unknown task) = %v, want 400", err)
	}
	stop(t, a, id)
}
