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

// What one load process, or one bare log, may have.
const (
	childMemory    = 2 << 30
	childProcesses = 256
	childParent    = "nomad-bench"
)

// child is this program again, in a role of its own and a control group with limits.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	group *cgroup.Group
	dirs  []string // of the group
}

// roles are what this program can be beside the one that measures.
var roles = map[string]func(args []string) error{"raft-node": raftNode, "fleet": fleet, "signers": signers}

// startChild starts a role. It waits for a line, so that nothing happens before its
// limits hold.
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
	if c.group, err = h.Create(childParent, fmt.Sprintf("%s-%d", name, os.Getpid()), cgroup.Limits{MemoryMax: childMemory, Processes: childProcesses}); err != nil {
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
	if err := errors.Join(c.group.Enter(c.cmd.Process.Pid), c.tell("go")); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// tell writes a line to the child.
func (c *child) tell(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// stop ends the child, whatever it does.
func (c *child) stop() error {
	err := c.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	c.cmd.Wait() // that it was killed is no news
	err = errors.Join(err, c.group.Remove())
	for _, dir := range c.dirs {
		os.Remove(filepath.Dir(dir)) // what all children share goes with the last one
	}
	return err
}

// heard reads one word that the other side wrote on a line of its own.
func heard(in io.Reader, want string) error {
	var word string
	if _, err := fmt.Fscanln(in, &word); err != nil {
		return fmt.Errorf("wait for %q: %w", want, err)
	}
	if strings.TrimSpace(word) != want {
		return fmt.Errorf("%q was said instead of %q", word, want)
	}
	return nil
}
