package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Limits of a load process or a raw log.
const (
	childMemory    = 2 << 30
	childProcesses = 256
	childParent    = "nomad-bench"
)

// child is a process of this program in another role, in a control group with limits.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	group *cgroup.Group
	dirs  []string // of the control group
}

// roles are the roles of child processes.
var roles = map[string]func(args []string) error{"raft-node": raftNode, "fleet": fleet, "signers": signers, "simulate": simulate,
	"bridged": bridged, "svids": svids}

// startChild starts a role. The child waits for a line of input, so that its limits apply before
// the role begins.
func startChild(ctx context.Context, role, name string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append([]string{role}, args...)...)}
	limits := cgroup.Limits{MemoryMax: childMemory, Processes: childProcesses}
	if c.group, err = h.Create(childParent, fmt.Sprintf("%s-%d", name, os.Getpid()), limits); err != nil {
		return nil, err
	}
	for _, file := range c.group.JoinFiles() {
		c.dirs = append(c.dirs, filepath.Dir(file))
	}
	if dir := c.group.Dir(); dir != "" {
		c.dirs = append(c.dirs, dir)
	}
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	if err == nil {
		c.out, err = c.cmd.StdoutPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, c.group.Remove())
	}
	if err := errors.Join(c.group.Enter(c.cmd.Process.Pid), c.send("go")); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// send writes a line to the child.
func (c *child) send(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// stop kills the child.
func (c *child) stop() error {
	err := c.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	c.cmd.Wait() // the error that it was killed is expected
	err = errors.Join(err, c.group.Remove())
	for _, dir := range c.dirs {
		os.Remove(filepath.Dir(dir)) // the last child removes the common group
	}
	return err
}

// expectWord reads a line and returns an error unless it is the expected word.
func expectWord(in io.Reader, want string) error {
	var word string
	if _, err := fmt.Fscanln(in, &word); err != nil {
		return fmt.Errorf("wait for %q: %w", want, err)
	}
	if strings.TrimSpace(word) != want {
		return fmt.Errorf("got %q, want %q", word, want)
	}
	return nil
}
