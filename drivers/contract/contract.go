// Package contract is the table of tests that each driver on drivers/process passes: start, stop, signals, sessions,
// logs, statistics, recovery, crashes of the agent and of the supervisor, and that nothing of an ended task remains.
// The package of a driver tests what is special about the driver.
//
//	Subject (driver, tasks) ──Run──▶ rows ──▶ a supervisor, an instance and tasks for each row
//
// To add a driver, call Run in a test of its package, with a Subject. To add a test for all drivers, add a row to rows.
// Only tests use the package. It starts no goroutine.
package contract

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Subject is a driver under test.
type Subject struct {
	// Driver returns a configured instance that has no tasks, as in an agent that has just started.
	Driver func(t testing.TB, super *supervise.Client) drivers.Driver
	// Hold makes cfg a task that writes Ready to its stdout and then runs until it is stopped.
	Hold  func(t testing.TB, cfg *drivers.TaskConfig)
	Ready string
	// Stops are the results of Hold after signals that it handles. The empty name is the default signal.
	Stops map[string]Exit
	// Signal is a signal that Hold answers with Answer. Empty: the driver sends no signals.
	Signal, Answer string
	// GroupSignals means that signals also go to the children of the main process.
	GroupSignals bool
	// MemoryLimit means that a task cannot use more than its memory.
	MemoryLimit bool
	// Shell makes cfg a task that runs a script with /bin/sh. The environment of the script has NOMAD_ALLOC_DIR. Nil: the
	// tasks of the driver run no programs, and have no sessions.
	Shell func(t testing.TB, cfg *drivers.TaskConfig, script string)
}

// Exit is the exit code and the signal of a task.
type Exit struct{ Code, Signal int }

// killed is the result of SIGKILL.
var killed = Exit{137, 9}

// ShellHold is the script of Hold for drivers whose task is a shell. ShellStops and ShellSignal are its results.
const (
	ShellHold   = "trap 'exit 3' INT; trap 'exit 4' USR1; trap 'echo got' USR2; echo ready; while :; do sleep 0.01; done"
	ShellReady  = "ready\n"
	ShellSignal = "SIGUSR2"
	ShellAnswer = "got\n"
)

// ShellStops returns the Stops of ShellHold.
func ShellStops() map[string]Exit {
	return map[string]Exit{"": {3, 0}, "SIGUSR1": {4, 0}, "SIGTERM": {143, 15}}
}

// Run runs each row with the driver.
func Run(t *testing.T, s Subject) {
	for _, row := range rows() {
		if row.shell && s.Shell == nil || row.name == memoryRow && !s.MemoryLimit { // the task would use all of the host
			continue
		}
		t.Run(row.name, func(t *testing.T) { row.run(newRig(t, s)) })
	}
}

// rig is an instance of the driver with a supervisor of its own.
type rig struct {
	*testing.T
	Subject
	dir    string // parent of the allocation directories
	super  *supervise.Client
	driver drivers.Driver
	tasks  []*drivers.TaskConfig
}

func newRig(t *testing.T, s Subject) *rig {
	t.Helper()
	r := &rig{T: t, Subject: s, dir: testtask.OpenDir(t)}
	r.super = testtask.Supervisor(t, r.dir)
	r.driver = s.Driver(t, r.super)
	return r
}

// config returns the config of a new task, without a program.
func (r *rig) config() *drivers.TaskConfig {
	r.Helper()
	cfg := testtask.Config(r, r.dir, len(r.tasks)+1)
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 256 << 20, CPUShares: 500, MHzPerCore: 2000}
	cfg.Env = map[string]string{}
	r.tasks = append(r.tasks, cfg)
	return cfg
}

// hold returns a task that runs until it is stopped.
func (r *rig) hold() *drivers.TaskConfig {
	r.Helper()
	cfg := r.config()
	r.Hold(r, cfg)
	return cfg
}

// shell returns a task that runs a script.
func (r *rig) shell(script string) *drivers.TaskConfig {
	r.Helper()
	cfg := r.config()
	r.Shell(r, cfg, script)
	return cfg
}

func (r *rig) start(cfg *drivers.TaskConfig) *drivers.TaskHandle {
	r.Helper()
	return testtask.Start(r, r.driver, cfg, r.Ready)
}

// nextAgent replaces the driver by that of the next agent.
func (r *rig) nextAgent() {
	r.Helper()
	first := r.super
	r.super = testtask.SecondClient(r, first)
	first.Close() //nolint:errcheck // it never fails
	r.driver = r.Driver(r, r.super)
}

// killSupervisor kills the supervisor.
func (r *rig) killSupervisor() {
	r.Helper()
	pid := 0
	for name, args := range commands(r) {
		if len(args) > 1 && args[0] == "nomad-supervise" && args[1] == testtask.SupervisorDir(r.dir) {
			pid = name
		}
	}
	if pid == 0 {
		r.Fatal("no supervisor is running")
	}
	kill(r, pid)
}

// kill kills a process and waits for its end.
func kill(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the end of process "+strconv.Itoa(pid), func() bool { return len(command(pid)) == 0 })
}

// commands returns the arguments of all processes.
func commands(t testing.TB) map[int][]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int][]string{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out[pid] = command(pid)
		}
	}
	return out
}

// command returns the arguments of a process, none if it has ended, even if its parent has not waited for it.
func command(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// pid returns the process of a running task, as the driver reports it.
func (r *rig) pid(cfg *drivers.TaskConfig) int {
	r.Helper()
	status, err := r.driver.InspectTask(cfg.ID)
	if err != nil || status.State != drivers.TaskRunning {
		r.Fatalf("InspectTask() = %+v, %v, want a running task", status, err)
	}
	pid, err := strconv.Atoi(status.Attributes["pid"])
	if err != nil || len(command(pid)) == 0 {
		r.Fatalf("process %q of the task, %v, does not exist", status.Attributes["pid"], err)
	}
	return pid
}

// ends waits for the end of a task, destroys it and checks the result.
func (r *rig) ends(cfg *drivers.TaskConfig, want Exit) testtask.Outcome {
	r.Helper()
	out := testtask.Wait(r, r.driver, cfg)
	if got := (Exit{out.ExitCode, out.Signal}); got != want || out.Err != nil {
		r.Errorf("exit = %+v, want %+v; stderr: %s", *out.ExitResult, want, out.Stderr)
	}
	return out
}

// stops stops a task at once.
func (r *rig) stops(cfg *drivers.TaskConfig) {
	r.Helper()
	if err := r.driver.StopTask(r.Context(), cfg.ID, 0, ""); err != nil {
		r.Fatalf("StopTask() = %v", err)
	}
	r.ends(cfg, killed)
}

// session runs a program in a task.
func (r *rig) session(cfg *drivers.TaskConfig, stdin string, argv ...string) (code int, out string, err error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	var b bytes.Buffer
	exit, err := r.driver.(drivers.Execer).ExecTask(ctx, cfg.ID, &drivers.ExecOptions{Command: argv,
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, Stdin: strings.NewReader(stdin), Stdout: &b, Stderr: &b})
	if err != nil {
		return 0, "", err
	}
	return exit.ExitCode, b.String(), nil
}

// takesSessions checks that sessions run in a task, if the driver has them.
func (r *rig) takesSessions(cfg *drivers.TaskConfig) {
	r.Helper()
	if r.Shell == nil {
		return
	}
	if code, out, err := r.session(cfg, "sent", "sh", "-c", "cat; exit 5"); code != 5 || out != "sent" || err != nil {
		r.Errorf("a session has exit %d, output %q, %v, want 5 and its input", code, out, err)
	}
}

// nothingLeft checks that only the files of ended tasks are on the host: no processes, control groups, mounts and records.
func (r *rig) nothingLeft() {
	r.Helper()
	for _, cfg := range r.tasks {
		group := process.GroupName(cfg)
		for pid, args := range commands(r) {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
			if err == nil && len(args) > 0 && strings.Contains(string(text), group.Name) {
				r.Errorf("process %d %q is left", pid, args)
			}
		}
		if dirs := testtask.GroupDirs(r, group.Parent, group.Name); len(dirs) > 0 {
			r.Errorf("control groups are left: %v", dirs)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, r.dir+"/alloc") {
			r.Errorf("a mount is left: %s", line)
		}
	}
	records, err := filepath.Glob(filepath.Join(testtask.SupervisorDir(r.dir), "tasks", "*"))
	if err != nil || len(records) > 0 {
		r.Errorf("records of the supervisor are left: %v, %v", records, err)
	}
}
