package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// collect opens the FIFOs of a collection as a driver would.
func collect(t *testing.T, c *supervise.Client, s *proc.Spec) (stdout, stderr *os.File) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, errs, err := c.Collect(ctx, s.ID, s.Logs)
	if err != nil {
		t.Fatalf("Collect() = %v", err)
	}
	var files []*os.File
	for _, name := range []string{out, errs} {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	return files[0], files[1]
}

func write(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestCollect collects what another program writes, until the collection is ended.
func TestCollect(t *testing.T) {
	r := newRig(t)
	c, s := r.client(), r.spec("")
	stdout, stderr := collect(t, c, s)
	write(t, stdout, "one\n")
	write(t, stderr, "fault\n")
	testpace.Until(t, "the first line", func() bool { return r.stdout(s) == "one\n" })
	again, _ := collect(t, c, s) // such as after an answer that was lost
	write(t, again, "two\n")
	again.Close()
	stdout.Close()
	write(t, stderr, strings.Repeat("x", 40_000)) // more than is read at once
	exit, err := c.Kill(t.Context(), s.ID)
	if err != nil || exit.Code != 0 || exit.Unknown != "" {
		t.Fatalf("Kill() = %+v, %v", exit, err)
	}
	if got := r.stdout(s); got != "one\ntwo\n" {
		t.Errorf("stdout = %q", got)
	}
	text, err := os.ReadFile(filepath.Join(r.logs, s.Logs.Name+".stderr.0"))
	if err != nil || len(text) != len("fault\n")+40_000 {
		t.Errorf("stderr has %d bytes, %v, want all", len(text), err)
	}
	if err := c.Forget(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFO still exists: %v", err)
	}
	if _, err := c.Task(t.Context(), s.ID); !errors.Is(err, proc.ErrUnknownTask) {
		t.Errorf("Task() = %v, want ErrUnknownTask", err)
	}
}

// TestCollectEndsAtOnce checks that a collection without a writer is ended without a delay.
func TestCollectEndsAtOnce(t *testing.T) {
	r := newRig(t)
	c, s := r.client(), r.spec("")
	stdout, stderr := collect(t, c, s)
	stdout.Close()
	stderr.Close()
	begun := time.Now()
	if _, err := c.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 900*time.Millisecond {
		t.Errorf("Kill() took %v, want no wait for writers that do not exist", took)
	}
}

// TestCollectAgain continues a collection after a crash and after an upgrade of the supervisor, also
// if nothing holds the FIFOs open meanwhile.
func TestCollectAgain(t *testing.T) {
	for name, replace := range map[string]func(*testing.T, *rig, *supervise.Client){
		"crash": func(_ *testing.T, r *rig, _ *supervise.Client) { r.crash() },
		"upgrade": func(t *testing.T, _ *rig, c *supervise.Client) {
			if err := c.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, s := r.client(), r.spec("")
			stdout, stderr := collect(t, c, s)
			write(t, stdout, "one\n")
			testpace.Until(t, "the first line", func() bool { return r.stdout(s) == "one\n" })
			stdout.Close()
			stderr.Close()
			replace(t, r, c)
			stdout, _ = collect(t, c, s)
			write(t, stdout, "two\n")
			testpace.Until(t, "the second line", func() bool { return r.stdout(s) == "one\ntwo\n" })
			if _, err := c.Kill(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCollectKeepsSupervisor checks that an agent that stops leaves the supervisor of a collection.
func TestCollectKeepsSupervisor(t *testing.T) {
	r := newRig(t)
	c, s := r.client(), r.spec("")
	stdout, _ := collect(t, c, s)
	if err := c.CloseAndStopIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, stdout, "one\n")
	testpace.Until(t, "the line", func() bool { return r.stdout(s) == "one\n" })
	if _, err := r.client().Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
}

// TestForeignCollector runs a task whose output another program collects.
func TestForeignCollector(t *testing.T) {
	r := newRig(t)
	c := r.client()
	fifo := filepath.Join(t.TempDir(), "out")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s := r.spec("echo hello; echo lost >&2")
	s.Logs = proc.Logs{Disabled: true, Stdout: fifo, Stderr: os.DevNull}
	r.start(c, s)
	if exit := r.wait(c, s.ID); exit.Code != 0 {
		t.Fatalf("exit = %+v", exit)
	}
	buf := make([]byte, 100)
	n, err := in.Read(buf)
	if err != nil || string(buf[:n]) != "hello\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	for name, make := range map[string]func(path string) error{
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link": func(path string) error { return os.Symlink(fifo, path) },
		"absent": func(string) error { return nil },
	} {
		path := filepath.Join(t.TempDir(), "planted")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		bad := r.spec("true")
		bad.Logs = proc.Logs{Disabled: true, Stdout: path, Stderr: os.DevNull}
		if _, err := c.Start(t.Context(), bad); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Start() = %v, want an error that names the path", name, err)
		}
	}
}

// TestCollectFaults refuses collections that cannot work.
func TestCollectFaults(t *testing.T) {
	r := newRig(t)
	c := r.client()
	task := r.spec("sleep 1000")
	r.start(c, task)
	for name, give := range map[string]proc.Logs{
		"disabled": {Disabled: true},
		"no files": {Root: r.logs, Name: "x", MaxBytes: 1},
		"no root":  {Root: filepath.Join(r.logs, "absent"), Name: "x", MaxFiles: 1, MaxBytes: 1},
	} {
		if _, _, err := c.Collect(t.Context(), "faulty", give); err == nil {
			t.Errorf("%s: Collect() = nil, want an error", name)
		}
	}
	if _, _, err := c.Collect(t.Context(), task.ID, task.Logs); err == nil || !strings.Contains(err.Error(), "runs a task with this ID") {
		t.Errorf("Collect() of a running task = %v", err)
	}
	if list, err := c.Tasks(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("Tasks() = %d tasks, %v, want only the running one", len(list), err)
	}
}
