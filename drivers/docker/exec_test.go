package docker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A session has its own streams, environment and result.
func TestExec(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("exec sleep 1000"))
	f.start(cfg)
	var out, errs testbuffer.Buffer
	exit, err := f.ExecTask(t.Context(), cfg.ID,
		&drivers.ExecOptions{Command: []string{"sh", "-c", "cat; echo $X >&2; exit 9"}, Env: map[string]string{"X": "env"},
			Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errs})
	if err != nil || exit.ExitCode != 9 || out.String() != "in" || errs.String() != "env\n" {
		t.Errorf("ExecTask() = %+v, %v, output %q and %q", exit, err, out.String(), errs.String())
	}
	if exit, err := f.ExecTask(t.Context(), cfg.ID,
		&drivers.ExecOptions{Command: []string{"/no/such"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}); err == nil &&
		exit.ExitCode == 0 {
		t.Errorf("ExecTask() of a missing program = %+v, nil", exit)
	}
	if _, err := f.ExecTask(t.Context(), "other", &drivers.ExecOptions{Command: []string{"true"}}); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("ExecTask() of an unknown task = %v", err)
	}
}

// A session with a terminal follows its size, and ends with its caller.
func TestExecTerminal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("exec sleep 1000"))
	f.start(cfg)
	in, typed := io.Pipe()
	defer typed.Close()
	var out testbuffer.Buffer
	sizes := make(chan drivers.TerminalSize, 1)
	sizes <- drivers.TerminalSize{Height: 31, Width: 117}
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		exit *drivers.ExitResult
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := f.ExecTask(ctx, cfg.ID, &drivers.ExecOptions{Command: []string{"sh"}, Tty: true, Stdin: in, Stdout: &out, Resize: sizes})
		done <- result{exit, err}
	}()
	testpace.Until(t, "the first size", func() bool {
		io.WriteString(typed, "stty size\n")
		return strings.Contains(out.String(), "31 117")
	})
	sizes <- drivers.TerminalSize{Height: 12, Width: 45}
	testpace.Until(t, "the second size", func() bool {
		io.WriteString(typed, "stty size\n")
		return strings.Contains(out.String(), "12 45")
	})
	cancel()
	if got := <-done; got.err == nil {
		t.Errorf("ExecTask() after its context = %+v, nil", got.exit)
	}
}

// A signal reaches the task; an unknown one is refused.
func TestSignal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("trap 'echo usr1' USR1; echo up; while :; do sleep 0.05; done"))
	f.start(cfg)
	testpace.Until(t, "the script runs", func() bool { out, _ := f.output(cfg); return out == "up\n" })
	if err := f.SignalTask(cfg.ID, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the signal", func() bool { out, _ := f.output(cfg); return out == "up\nusr1\n" })
	if err := f.SignalTask(cfg.ID, "SIGNONE"); err == nil || !strings.Contains(err.Error(), "unknown signal") {
		t.Errorf("SignalTask() of an unknown signal = %v", err)
	}
	if err := f.StopTask(t.Context(), cfg.ID, time.Second, "SIGNONE"); err == nil || !strings.Contains(err.Error(), "unknown signal") {
		t.Errorf("StopTask() with an unknown signal = %v", err)
	}
}

// Samples have the memory and the processor time of the container.
func TestStats(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("while :; do :; done"))
	f.start(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, err := f.TaskStats(ctx, cfg.ID, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "a sample of a busy task", func() bool {
		s := <-samples
		return s.CPUPercent > 1 && s.CPUTicks > 1 && s.MemoryUsage > 0 && len(s.CPUMeasured) > 0
	})
	if err := f.StopTask(t.Context(), cfg.ID, 0, "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the end of the samples", func() bool { _, open := <-samples; return !open })
	if _, err := f.TaskStats(ctx, cfg.ID, 0); err == nil {
		t.Error("TaskStats() without an interval = nil")
	}
}
