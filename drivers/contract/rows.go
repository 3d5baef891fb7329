package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// row is a test of the table.
type row struct {
	name  string
	shell bool // needs Subject.Shell
	run   func(*rig)
}

// memoryRow is the name of the row for drivers with Subject.MemoryLimit.
const memoryRow = "memory"

func rows() []row {
	return []row{
		{"start", false, (*rig).startRow},
		{"logs", true, (*rig).logs},
		{"exit", true, (*rig).exit},
		{"killed", false, (*rig).killedRow},
		{"stop", false, (*rig).stop},
		{"signal", false, (*rig).signal},
		{"signal of children", true, (*rig).signalChildren},
		{"sessions", false, (*rig).sessions},
		{"statistics", false, (*rig).statistics},
		{memoryRow, true, (*rig).memory},
		{"leftovers", true, (*rig).leftovers},
		{"recover", false, (*rig).recovers},
		{"recover exits", true, (*rig).recoversExits},
		{"crash of the supervisor", false, (*rig).supervisorCrash},
		{"crash of both", false, (*rig).bothCrash},
		{"end without a supervisor", false, (*rig).unwatchedEnd},
	}
}

// startRow checks the states of a task.
func (r *rig) startRow() {
	cfg := r.hold()
	r.start(cfg)
	pid := r.pid(cfg)
	if err := r.driver.DestroyTask(cfg.ID, false); err == nil {
		r.Error("DestroyTask() of a running task = nil, want an error")
	}
	if _, err := r.driver.StartTask(r.Context(), cfg); err == nil {
		r.Error("a second StartTask() = nil, want an error")
	}
	if now := r.pid(cfg); now != pid {
		r.Errorf("the task is process %d, was %d", now, pid)
	}
	if err := r.driver.DestroyTask(cfg.ID, true); err != nil {
		r.Fatalf("DestroyTask() by force = %v", err)
	}
	if _, err := r.driver.InspectTask(cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("InspectTask() of a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	if _, err := r.driver.WaitTask(r.Context(), cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("WaitTask() of a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	r.nothingLeft()
}

// logs checks that both streams arrive in their files, complete at the time of the exit.
func (r *rig) logs() {
	out := testtask.Run(r, r.driver, r.shell("seq 2000; seq 3000 >&2"))
	for stream, want := range map[string]int{out.Stdout: 2000, out.Stderr: 3000} {
		if got := strings.Count(stream, "\n"); got != want {
			r.Errorf("a stream has %d lines, want %d", got, want)
		}
	}
	r.nothingLeft()
}

func (r *rig) exit() {
	for script, code := range map[string]int{"exit 0": 0, "exit 7": 7, "no-such-program-of-a-test": 127} {
		cfg := r.shell(script)
		if _, err := r.driver.StartTask(r.Context(), cfg); err != nil {
			r.Fatalf("StartTask() = %v", err)
		}
		r.ends(cfg, Exit{code, 0})
	}
	r.nothingLeft()
}

// killedRow kills the process of a task.
func (r *rig) killedRow() {
	cfg := r.hold()
	r.start(cfg)
	kill(r, r.pid(cfg))
	r.ends(cfg, killed)
	r.nothingLeft()
}

// stop stops tasks with each signal that they handle, and without patience.
func (r *rig) stop() {
	for signal, want := range r.Stops {
		cfg := r.hold()
		r.start(cfg)
		if err := r.driver.StopTask(r.Context(), cfg.ID, time.Minute, signal); err != nil {
			r.Fatalf("StopTask() with %q = %v", signal, err)
		}
		r.ends(cfg, want)
	}
	cfg := r.hold()
	r.start(cfg)
	if err := r.driver.StopTask(r.Context(), cfg.ID, time.Minute, "SIGNONE"); err == nil {
		r.Error("StopTask() with an unknown signal = nil, want an error")
	}
	r.stops(cfg)
	if err := r.driver.StopTask(r.Context(), cfg.ID, 0, ""); !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("StopTask() of a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	r.nothingLeft()
}

func (r *rig) signal() {
	cfg := r.hold()
	r.start(cfg)
	if err := r.driver.SignalTask(cfg.ID, "SIGNONE"); err == nil {
		r.Error("SignalTask() of an unknown signal = nil, want an error")
	}
	if r.Signal == "" {
		if err := r.driver.SignalTask(cfg.ID, "SIGHUP"); err == nil {
			r.Error("SignalTask() = nil, want an error")
		}
	} else {
		if err := r.driver.SignalTask(cfg.ID, r.Signal); err != nil {
			r.Errorf("SignalTask() = %v", err)
		}
		testtask.Await(r, cfg, r.Answer)
	}
	r.pid(cfg)
	if err := r.driver.StopTask(r.Context(), cfg.ID, 0, ""); err != nil {
		r.Fatalf("StopTask() = %v", err)
	}
	if _, err := r.driver.WaitTask(r.Context(), cfg.ID); err != nil {
		r.Fatalf("WaitTask() = %v", err)
	}
	if err := r.driver.SignalTask(cfg.ID, r.Signal); r.Signal != "" && !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("SignalTask() of a task that has ended = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	r.ends(cfg, killed)
	if err := r.driver.SignalTask(cfg.ID, r.Signal); err == nil {
		r.Error("SignalTask() of a destroyed task = nil, want an error")
	}
}

// signalChildren checks whether a signal reaches a child of the main process.
func (r *rig) signalChildren() {
	cfg := r.shell("gate() { while [ ! -e $NOMAD_ALLOC_DIR/gate ]; do sleep 0.01; done; }; trap 'echo got' USR2; trap '' QUIT; " +
		"{ trap 'echo child' USR2 QUIT; echo up; gate; } & gate; wait")
	testtask.Start(r, r.driver, cfg, "up\n")
	if err := r.driver.SignalTask(cfg.ID, r.Signal); err != nil {
		r.Errorf("SignalTask() = %v", err)
	}
	testtask.Await(r, cfg, r.Answer)
	if err := os.WriteFile(filepath.Join(cfg.SharedDir, "gate"), nil, 0o644); err != nil {
		r.Fatal(err)
	}
	out := r.ends(cfg, Exit{})
	if got := strings.Contains(out.Stdout, "child\n"); got != r.GroupSignals {
		r.Errorf("the child got the signal: %t, want %t", got, r.GroupSignals)
	}
}

func (r *rig) sessions() {
	cfg := r.hold()
	r.start(cfg)
	if r.Shell == nil {
		if _, _, err := r.session(cfg, "", "true"); err == nil {
			r.Error("ExecTask() = nil, want an error")
		}
		r.stops(cfg)
		return
	}
	r.takesSessions(cfg)
	if code, _, err := r.session(cfg, "", "no-such-program-of-a-test"); code != 127 || err != nil {
		r.Errorf("a session without a program has exit %d, %v, want 127", code, err)
	}
	r.stops(cfg)
	if _, _, err := r.session(cfg, "", "true"); !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("a session in a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	r.nothingLeft()
}

// statistics waits for a sample of a busy task. The samples end with the task.
func (r *rig) statistics() {
	cfg := r.hold()
	r.start(cfg)
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	samples, err := r.driver.TaskStats(ctx, cfg.ID, 20*time.Millisecond)
	if err != nil {
		r.Fatal(err)
	}
	for u := range samples {
		if _, present := u.Pressure["cpu"]; present != r.pressure() {
			r.Errorf("pressure = %v, supported by this kernel: %t", u.Pressure, r.pressure())
		}
		if u.CPUPercent > 0 && u.CPUTicks > 0 && u.MemoryUsage > 0 {
			break
		}
	}
	r.stops(cfg)
	for range samples {
	}
	if ctx.Err() != nil {
		r.Error("no sample shows a busy task, or the samples go on after its end")
	}
}

// pressure reports whether the kernel measures the pressure of a control group.
func (r *rig) pressure() bool {
	r.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		r.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(h.V2, "cpu.pressure"))
	return err == nil
}

// memory has a task exceed its memory limit.
func (r *rig) memory() {
	cfg := r.shell("exec tail /dev/zero")
	cfg.Limits.MemoryBytes = 96 << 20
	if out := testtask.Run(r, r.driver, cfg); !out.OOMKilled || out.Successful() {
		r.Errorf("exit = %+v, want killed for lack of memory; stderr: %s", *out.ExitResult, out.Stderr)
	}
	r.nothingLeft()
}

// leftovers checks that the descendants of a task end with it.
func (r *rig) leftovers() {
	cfg := r.shell("setsid sleep 1000 & trap '' HUP; (sleep 1000 &) ; echo ready; exit 0")
	if out := testtask.Run(r, r.driver, cfg); !out.Successful() {
		r.Errorf("exit = %+v, want 0; stderr: %s", *out.ExitResult, out.Stderr)
	}
	r.nothingLeft()
}

// recovers has a second agent take over a task. The handle of the other task is that of an agent that died before its
// start returned.
func (r *rig) recovers() {
	first, second := r.hold(), r.hold()
	handle, early := r.start(first), r.start(second)
	pid := r.pid(first)
	r.nextAgent()
	for _, h := range []*drivers.TaskHandle{handle, {Driver: early.Driver, TaskID: early.TaskID}} {
		if err := r.driver.RecoverTask(r.Context(), h); err != nil {
			r.Fatalf("RecoverTask() = %v", err)
		}
	}
	if now := r.pid(first); now != pid {
		r.Errorf("the task is process %d, was %d", now, pid)
	}
	r.takesSessions(first)
	if r.Signal != "" {
		if err := r.driver.SignalTask(first.ID, r.Signal); err != nil {
			r.Errorf("SignalTask() = %v", err)
		}
		testtask.Await(r, first, r.Answer)
	}
	if err := r.driver.StopTask(r.Context(), first.ID, time.Minute, ""); err != nil {
		r.Fatalf("StopTask() = %v", err)
	}
	r.ends(first, r.Stops[""])
	r.stops(second)
	if err := r.driver.RecoverTask(r.Context(), handle); !errors.Is(err, drivers.ErrTaskNotFound) {
		r.Errorf("RecoverTask() of a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	r.nothingLeft()
}

// recoversExits has a second agent take over tasks that ended before, and afterwards.
func (r *rig) recoversExits() {
	ended := r.shell("echo early; exit 5")
	running := r.shell("echo up; while [ ! -e $NOMAD_ALLOC_DIR/gate ]; do sleep 0.01; done; echo late; exit 6")
	handles := []*drivers.TaskHandle{testtask.Start(r, r.driver, ended, "early\n"), testtask.Start(r, r.driver, running, "up\n")}
	r.nextAgent()
	for _, h := range handles {
		if err := r.driver.RecoverTask(r.Context(), h); err != nil {
			r.Fatalf("RecoverTask() = %v", err)
		}
	}
	r.ends(ended, Exit{5, 0})
	if err := os.WriteFile(filepath.Join(running.SharedDir, "gate"), nil, 0o644); err != nil {
		r.Fatal(err)
	}
	if out := r.ends(running, Exit{6, 0}); out.Stdout != "up\nlate\n" {
		r.Errorf("stdout = %q, want the lines of before and after", out.Stdout)
	}
	r.nothingLeft()
}

// supervisorCrash checks that a task outlives its supervisor, and that the next one ends it.
func (r *rig) supervisorCrash() {
	cfg := r.hold()
	h := r.start(cfg)
	pid := r.pid(cfg)
	r.killSupervisor()
	r.continues(cfg, h, pid)
}

// bothCrash is supervisorCrash with an agent that ends as well.
func (r *rig) bothCrash() {
	cfg := r.hold()
	h := r.start(cfg)
	pid := r.pid(cfg)
	r.killSupervisor()
	r.nextAgent()
	r.continues(cfg, h, pid)
}

// continues recovers a task under another supervisor, uses it and ends it.
func (r *rig) continues(cfg *drivers.TaskConfig, h *drivers.TaskHandle, pid int) {
	r.Helper()
	if err := r.driver.RecoverTask(r.Context(), h); err != nil {
		r.Fatalf("RecoverTask() = %v", err)
	}
	if now := r.pid(cfg); now != pid {
		r.Errorf("the task is process %d, was %d", now, pid)
	}
	r.takesSessions(cfg)
	if r.Signal != "" {
		if err := r.driver.SignalTask(cfg.ID, r.Signal); err != nil {
			r.Errorf("SignalTask() = %v", err)
		}
		testtask.Await(r, cfg, r.Answer) // its output is still read
	}
	if err := r.driver.StopTask(r.Context(), cfg.ID, time.Minute, ""); err != nil {
		r.Fatalf("StopTask() = %v", err)
	}
	r.endsAdopted(cfg, r.Stops[""])
	testpace.Until(r, "the end of the task", func() bool { return len(command(pid)) == 0 })
	r.nothingLeft()
}

// unwatchedEnd checks that the exit of a task without a supervisor is not guessed.
func (r *rig) unwatchedEnd() {
	cfg := r.hold()
	h := r.start(cfg)
	pid := r.pid(cfg)
	r.killSupervisor()
	kill(r, pid)
	r.nextAgent()
	if err := r.driver.RecoverTask(r.Context(), h); err != nil {
		r.Fatalf("RecoverTask() = %v", err)
	}
	r.endsAdopted(cfg, killed)
	r.nothingLeft()
}

// endsAdopted waits for the end of a task that is not a child of the supervisor. The result is correct, or an error where
// the kernel does not report it (before Linux 6.15).
func (r *rig) endsAdopted(cfg *drivers.TaskConfig, want Exit) {
	r.Helper()
	out := testtask.Wait(r, r.driver, cfg)
	if got := (Exit{out.ExitCode, out.Signal}); out.Err == nil && got != want || out.Err != nil && out.Successful() {
		r.Errorf("exit = %+v, want %+v or an error", *out.ExitResult, want)
	}
}
