package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/pty"
)

// completed are the shells with a completion file, their arguments for a session without the user's files,
// and the lines that load the file and set the prompt.
var completed = []struct {
	name, file string
	args       []string
	setup      string
}{
	{"bash", "nomad.bash", []string{"--norc", "--noprofile", "-i"}, ". %s/nomad.bash; PS1='rea''dy> '"},
	{"zsh", "_nomad", []string{"-f", "-i"}, "fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; PS1='rea''dy> '"},
	{"fish", "nomad.fish", []string{"--no-config", "-i"}, "source %s/nomad.fish; function fish_prompt; printf 'rea''dy> '; end"},
}

// TestShells types commands with the key Tab into real shells, which run what they have completed.
func TestShells(t *testing.T) {
	a := harness.Start(t, cluster.Options{Dir: harness.TempDir(t), Args: []string{"-dev"}})
	work := harness.TempDir(t)
	bash(t.Context(), t, work, append(os.Environ(), "NOMAD_ADDR="+a.Address()),
		"nomad job init -short job.hcl >/dev/null && nomad job run -detach job.hcl")
	var alloc *api.AllocationListStub
	harness.Within(t, time.Minute, "the job example has an allocation", func() bool {
		found, _, err := a.Client.Jobs().Allocations("example", false, nil)
		if err != nil || len(found) != 1 {
			return false
		}
		alloc = found[0]
		return len(alloc.TaskStates) > 0
	})
	task := ""
	for task = range alloc.TaskStates {
	}
	cases := [][2]string{ // what is typed, and the arguments of the command that ran
		{"job stat\t-verbose exa\t", "job status -verbose example"},
		{"job insp\tnosuchjob\t", "job inspect nosuchjob"},
		{"alloc logs " + alloc.ID[:7] + "\t" + task[:1] + "\t", "alloc logs " + alloc.ID + " " + task},
		{"node drain -self " + alloc.NodeID[:6] + "\t", "node drain -self " + alloc.NodeID},
		{"job action -job=exa\t", "job action -job=example"},
		{"job allocs -namesp\tdefau\texam\t", "job allocs -namespace default example"},
		{"config validate some.h\t", "config validate some.hcl"},
	}
	for _, sh := range completed {
		t.Run(sh.name, func(t *testing.T) {
			program, err := exec.LookPath(sh.name)
			if err != nil {
				if os.Getenv("NEEDS_SHELLS") != "" {
					t.Fatal(err)
				}
				t.Skipf("install %s, or set NEEDS_SHELLS=1 to make its absence an error", sh.name)
			}
			s := openShell(t, program, sh.args, a.Address())
			files, err := filepath.Abs("../../packaging/completions")
			if err != nil {
				t.Fatal(err)
			}
			s.line(t, fmt.Sprintf(sh.setup, files))
			for _, c := range cases {
				s.line(t, "nomad "+c[0])
				if got := strings.Join(strings.Fields(s.ran(t)), " "); got != c[1] {
					t.Errorf("after %q the shell ran %q, want %q\n%q", c[0], got, c[1], s.screen())
				}
			}
		})
	}
}

// shellSession is an interactive shell on a terminal. Its nomad completes like the real one, but writes
// its arguments to a file instead of running a command.
type shellSession struct {
	terminal *os.File
	dir      string

	mu     sync.Mutex
	output bytes.Buffer
}

func openShell(t *testing.T, program string, args []string, address string) *shellSession {
	t.Helper()
	real, err := exec.LookPath("nomad")
	if err != nil {
		t.Fatal(err)
	}
	s := &shellSession{dir: harness.TempDir(t)}
	harness.Mkdir(t, filepath.Join(s.dir, "bin"))
	script := fmt.Sprintf("#!/bin/sh\nif [ -n \"$COMP_LINE\" ]; then exec '%s'; fi\necho \"$@\" > '%s/ran'\n", real, s.dir)
	if err := os.WriteFile(filepath.Join(s.dir, "bin", "nomad"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(s.dir, "some.hcl"), "")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	if err := pty.Resize(master, 50, 200); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = []string{"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "TERM=dumb", "LANG=C.UTF-8",
		"PS1=", "NOMAD_ADDR=" + address}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.terminal = master
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, master) // ends when the terminal is closed
	}()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		master.Close()
		<-read
	})
	return s
}

// Write stores what the shell prints.
func (s *shellSession) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(b)
}

func (s *shellSession) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// line types a line and waits for the next prompt.
func (s *shellSession) line(t *testing.T, keys string) {
	t.Helper()
	before := strings.Count(s.screen(), "ready> ")
	if _, err := s.terminal.WriteString(keys + "\r"); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, time.Minute, fmt.Sprintf("a prompt after %q", keys),
		func() bool { return strings.Count(s.screen(), "ready> ") > before })
}

// ran returns the arguments of the last command.
func (s *shellSession) ran(t *testing.T) string {
	t.Helper()
	var text []byte
	harness.Within(t, time.Minute, "the shell runs nomad", func() (ok bool) {
		text, _ = os.ReadFile(filepath.Join(s.dir, "ran"))
		return len(text) > 0
	})
	if err := os.Remove(filepath.Join(s.dir, "ran")); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
