package hostvolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// Bounds of one call of a plugin.
const (
	maxOutput = 64 << 10
	maxErrors = 4 << 10
	// drainFor is how long output is read after the plugin ended. A descendant may still hold it open.
	drainFor = time.Second
)

// childFD is the descriptor of the executable in the plugin's process. A script is opened again by its interpreter.
const childFD = "/proc/self/fd/3"

// call is one run of a plugin.
type call struct {
	file  *os.File
	op    string
	env   []string
	limit time.Duration
}

// run runs the plugin in a process group of its own, and kills the group when the time is over or the output too long.
// It returns the output also with an error.
//
// The process gets SIGKILL when the thread that started it ends, so that it does not outlive the agent. The goroutine
// therefore keeps its thread.
func (c call) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		out, err := c.wait(ctx, cancel)
		done <- result{out, err}
	}()
	r := <-done
	return r.out, r.err
}

func (c call) wait(ctx context.Context, cancel func()) ([]byte, error) {
	out, errs := &firstbytes.Buffer{Limit: maxOutput, OnCut: cancel}, &firstbytes.Buffer{Limit: maxErrors}
	cmd := exec.CommandContext(ctx, childFD, c.op)
	cmd.Args[0] = c.file.Name()
	cmd.Env, cmd.Dir = c.env, "/"
	cmd.ExtraFiles = []*os.File{c.file}
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainFor
	err := cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // descendants; usually there are none
	}
	switch {
	case out.Truncated():
		return nil, fmt.Errorf("it printed more than %d bytes and was killed: make it print one JSON object", maxOutput)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it did not end within %s and was killed with its process group: run it by hand to see what it waits for", c.limit)
	case err == nil:
		return out.Bytes(), nil
	}
	if text := strings.TrimSpace(errs.String()); text != "" {
		err = fmt.Errorf("%w: %s", err, untrusted.Shorten(text, maxShown))
	}
	return out.Bytes(), err
}
