package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/exampledriver/proto"
)

// task is the state of a task, as its handle contains it.
type task struct {
	ID, Name string
	Dir      string // of the keeper's files, which only root can enter
	WorkDir  string
	Env      []string // for exec sessions
	Keeper   int
	Tick     string // start time of the keeper, which distinguishes it from a later process with its PID
	Started  time.Time
	Address  string
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Command string   `codec:"command"`
	Args    []string `codec:"args"`
	Address string   `codec:"address"` // reported as the task's own
}

// start starts the keeper of a task, and waits until the program runs.
func start(c *proto.TaskConfig) (*task, error) {
	var tc taskConfig
	if err := decode(c.GetMsgpackDriverConfig(), &tc); err != nil {
		return nil, fmt.Errorf("decode the config of the task: %w", err)
	}
	dir, err := os.MkdirTemp("", "exampledriver-")
	if err != nil {
		return nil, err
	}
	t := &task{ID: c.GetId(), Name: c.GetName(), Dir: dir, WorkDir: taskDir(c), Started: time.Now(), Address: tc.Address}
	for name, value := range c.GetEnv() {
		t.Env = append(t.Env, name+"="+value)
	}
	order, err := json.Marshal(order{
		Argv:   append([]string{tc.Command}, tc.Args...),
		Dir:    t.WorkDir,
		Env:    t.Env,
		Stdout: c.GetStdoutPath(),
		Stderr: c.GetStderrPath(),
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, orderFile), order, 0o600)
	}
	if err == nil {
		err = t.launch()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return t, nil
}

// launch starts the keeper in a session of its own: it outlives this program.
func (t *task) launch() error {
	cmd := exec.Command("/proc/self/exe", keeperArg, t.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, answer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd.Stdout = answer
	err = cmd.Start()
	answer.Close()
	if err != nil {
		return err
	}
	t.Keeper = cmd.Process.Pid
	// Before it is reaped: the program of the task may end at once.
	t.Tick, err = startTick(t.Keeper)
	go cmd.Wait()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(ready, 1<<10))
	if err != nil {
		return err
	}
	if string(text) != started {
		return errors.New(strings.TrimSpace("the program of the task was not started: " + string(text)))
	}
	return nil
}

// find reports whether the keeper runs, or has left an exit.
func (t *task) find() error {
	if t.running() {
		return nil
	}
	if _, err := t.exit(); err != nil {
		return errNotFound
	}
	return nil
}

// running reports whether the keeper runs.
func (t *task) running() bool {
	state, tick, err := stat(t.Keeper)
	return err == nil && tick == t.Tick && state != "Z"
}

// startTick returns the start time of a process that was not reaped.
func startTick(pid int) (string, error) {
	_, tick, err := stat(pid)
	return tick, err
}

// stat returns the state and the start time of a process.
func stat(pid int) (state, tick string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", "", os.ErrNotExist
	}
	return fields[0], fields[19], nil
}

// pid returns the PID of the task's program, 0 if it is not known.
func (t *task) pid() int {
	text, _ := os.ReadFile(filepath.Join(t.Dir, pidFile))
	pid, _ := strconv.Atoi(string(text))
	return pid
}

func (t *task) exit() (*proto.ExitResult, error) {
	raw, err := os.ReadFile(filepath.Join(t.Dir, exitFile))
	if err != nil {
		return nil, err
	}
	result := &proto.ExitResult{}
	return result, json.Unmarshal(raw, result)
}

// wait waits until the keeper has ended.
func (t *task) wait(ctx context.Context) (*proto.ExitResult, error) {
	for t.running() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	result, err := t.exit()
	if err != nil {
		return &proto.ExitResult{ExitCode: -1}, nil // the keeper was killed
	}
	return result, nil
}

// signal signals the process group of the task's program.
func (t *task) signal(sig syscall.Signal) error {
	pid := t.pid()
	if pid == 0 || !t.running() {
		return errors.New("the task has ended")
	}
	return syscall.Kill(-pid, sig)
}

// resident returns the resident memory of the task's program.
func (t *task) resident() uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.pid()))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

func signalOf(name string) syscall.Signal {
	return map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2}[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
}
