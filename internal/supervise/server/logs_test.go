package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

func TestRotation(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("seq 20000")
	s.Logs.MaxFiles, s.Logs.MaxBytes = 3, 20000
	r.start(c, s)
	if exit := r.wait(c, s.ID); exit.Code != 0 {
		t.Fatalf("exit = %+v", exit)
	}
	all := sequence(20000)
	last := (len(all) - 1) / 20000
	for n := range last + 2 {
		b, err := os.ReadFile(filepath.Join(r.logs, fmt.Sprintf("%s.stdout.%d", s.Logs.Name, n)))
		if kept := n > last-3 && n <= last; kept != (err == nil) {
			t.Errorf("file %d of %d: %v, want kept: %t", n, last, err, kept)
		} else if kept && string(b) != all[n*20000:min(len(all), (n+1)*20000)] {
			t.Errorf("file %d has %d wrong bytes", n, len(b))
		}
	}
}

// TestNextStartAppends checks that a second start of a task continues the same files.
func TestNextStartAppends(t *testing.T) {
	r := newRig(t)
	c := r.client()
	first, second := r.spec("echo one"), r.spec("echo two")
	second.Logs.Name = first.Logs.Name
	for _, s := range []string{first.ID, second.ID} {
		if s == first.ID {
			r.start(c, first)
		} else {
			r.start(c, second)
		}
		r.wait(c, s)
	}
	if got := r.stdout(first); got != "one\ntwo\n" {
		t.Errorf("stdout = %q, want both starts", got)
	}
}

// TestPlantedLogs plants files under the log's name, as a task could, and checks that only a file
// of the supervisor is written.
func TestPlantedLogs(t *testing.T) {
	r := newRig(t)
	c := r.client()
	canary := filepath.Join(t.TempDir(), "canary")
	plants := map[string]func(name string) error{
		"symlink":  func(name string) error { return os.Symlink(canary, name) },
		"hardlink": func(name string) error { return os.Link(canary, name) },
		"fifo":     func(name string) error { return unix.Mkfifo(name, 0o666) },
		"other's file": func(name string) error {
			if err := os.WriteFile(name, nil, 0o666); err != nil || os.Geteuid() != 0 {
				return err
			}
			return os.Chown(name, 88001, 88001)
		},
		"directory": func(name string) error { return os.Mkdir(name, 0o777) },
	}
	for what, plant := range plants {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(canary, []byte("untouched"), 0o644); err != nil {
				t.Fatal(err)
			}
			s := r.spec("echo hello")
			if err := plant(filepath.Join(r.logs, s.Logs.Name+".stdout.0")); err != nil {
				t.Fatal(err)
			}
			r.start(c, s)
			r.wait(c, s.ID)
			if b, err := os.ReadFile(canary); err != nil || string(b) != "untouched" {
				t.Errorf("canary = %q, %v", b, err)
			}
			if got := r.stdout(s); got != "hello\n" {
				t.Errorf("stdout = %q, want hello in a file of the supervisor", got)
			}
			st, err := os.Lstat(filepath.Join(r.logs, s.Logs.Name+".stdout.0"))
			if err != nil || !st.Mode().IsRegular() || int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
				t.Errorf("the log is %v, %v, want a file of the supervisor", st, err)
			}
		})
	}
}

// TestReplacedLogs has a task replace its log between two starts by a file of the agent's user, as
// a task of a rootless agent can, or add a link to it. The next start writes to a new file.
func TestReplacedLogs(t *testing.T) {
	for name, replace := range map[string]func(log, canary string) error{
		"another file": func(log, canary string) error {
			return errors.Join(os.WriteFile(canary, nil, 0o644), os.Rename(canary, log))
		},
		"hard link": func(log, canary string) error {
			return errors.Join(os.WriteFile(canary, nil, 0o644), os.Remove(log), os.Link(canary, log))
		},
		"symlink":     func(log, canary string) error { return errors.Join(os.Rename(log, canary), os.Symlink(canary, log)) },
		"second name": func(log, canary string) error { return os.Link(log, canary) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.client()
			first, second := r.spec("echo one"), r.spec("echo two")
			second.Logs.Name = first.Logs.Name
			r.start(c, first)
			r.wait(c, first.ID)
			log := filepath.Join(r.logs, first.Logs.Name+".stdout.")
			if err := replace(log+"0", filepath.Join(r.logs, "canary")); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(log + "0")
			if err != nil {
				t.Fatal(err)
			}
			r.start(c, second)
			r.wait(c, second.ID)
			if after, err := os.ReadFile(log + "0"); err != nil || string(after) != string(before) {
				t.Errorf("the file with the log's name holds %q, %v, want %q", after, err, before)
			}
			if b, err := os.ReadFile(log + "1"); err != nil || string(b) != "two\n" {
				t.Errorf("the next log = %q, %v", b, err)
			}
		})
	}
}

// plantOther writes a file as another user, as a task of a root agent would. Without root there is
// only one user.
func plantOther(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("forged\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 88001, 88001); err != nil {
			t.Fatal(err)
		}
	}
}

// plantDirectory makes a directory that is not empty.
func plantDirectory(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(name, "full"), 0o777); err != nil {
		t.Fatal(err)
	}
}

// TestPlantedNumbers plants files under the names of later rotations. The next start continues its
// own file, and nothing is removed.
func TestPlantedNumbers(t *testing.T) {
	r := newRig(t)
	c := r.client()
	first, second, third := r.spec("echo one"), r.spec("echo two"), r.spec("echo three")
	second.Logs.Name, third.Logs.Name = first.Logs.Name, first.Logs.Name
	r.start(c, first)
	r.wait(c, first.ID)
	at := filepath.Join(r.logs, first.Logs.Name+".stdout.")
	plantOther(t, at+"500")
	plantDirectory(t, at+"501")
	if err := os.WriteFile(at+"1000000", []byte("forged\n"), 0o644); err != nil { // owned by the agent's user
		t.Fatal(err)
	}
	r.start(c, second)
	r.wait(c, second.ID)
	r.crash()
	if _, err := c.Tasks(t.Context()); err != nil { // of the next supervisor
		t.Fatal(err)
	}
	r.start(c, third)
	r.wait(c, third.ID)
	if b, err := os.ReadFile(at + "0"); err != nil || string(b) != "one\ntwo\nthree\n" {
		t.Errorf("log = %q, %v, want what all starts wrote", b, err)
	}
}

// TestPlantedRotations plants files under the next names while the task runs. Every rotation gets
// its name.
func TestPlantedRotations(t *testing.T) {
	r := newRig(t)
	c := r.client()
	gate := filepath.Join(t.TempDir(), "gate")
	s := r.spec("until [ -e " + gate + " ]; do sleep 0.01; done; seq 20000")
	s.Logs.MaxFiles, s.Logs.MaxBytes = 100, 4000
	r.start(c, s)
	at := func(n int) string { return filepath.Join(r.logs, fmt.Sprintf("%s.stdout.%d", s.Logs.Name, n)) }
	for n := 1; n < 200; n++ {
		switch n % 4 {
		case 0:
			plantOther(t, at(n))
		case 1:
			if err := os.Symlink("/etc/passwd", at(n)); err != nil {
				t.Fatal(err)
			}
		default:
			plantDirectory(t, at(n))
		}
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(c, s.ID); exit.Code != 0 {
		t.Fatalf("exit = %+v", exit)
	}
	want := sequence(20000)
	for n := 0; n*4000 < len(want); n++ {
		b, err := os.ReadFile(at(n))
		if err != nil || string(b) != want[n*4000:min(len(want), (n+1)*4000)] {
			t.Errorf("file %d has %d wrong bytes: %v", n, len(b), err)
		}
	}
}

// TestUnusedFilesOfEarlierVersion checks that the next supervisor removes log files that an earlier
// version made in advance.
func TestUnusedFilesOfEarlierVersion(t *testing.T) {
	r := newRig(t)
	unused := filepath.Join(r.dir, "spare")
	if err := os.MkdirAll(unused, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unused, "l1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.start(r.client(), r.spec("true"))
	if _, err := os.Lstat(unused); !os.IsNotExist(err) {
		t.Errorf("Lstat(%s) = %v, want it removed", unused, err)
	}
}

func TestDisabledLogs(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("echo hello")
	s.Logs.Disabled = true
	r.start(c, s)
	r.wait(c, s.ID)
	if left, err := os.ReadDir(r.logs); err != nil || len(left) > 0 {
		t.Errorf("log files = %v, %v, want none", left, err)
	}
}

// TestWithoutGroup checks tasks that are tracked by their session only.
func TestWithoutGroup(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("sleep 1000 & echo $!; exit 3")
	s.Group = nil
	r.start(c, s)
	if exit := r.wait(c, s.ID); exit.Code != 3 {
		t.Errorf("exit = %+v, want 3", exit)
	}
	var child int
	if _, err := fmt.Sscan(r.stdout(s), &child); err != nil {
		t.Fatal(err)
	}
	testpace.Until(r.t, "the child's end", func() bool { return !alive(child) })
	s = r.spec("trap '' TERM INT; echo up; while :; do sleep 0.01; done")
	s.Group = nil
	r.start(c, s)
	testpace.Until(r.t, "output", func() bool { return strings.HasPrefix(r.stdout(s), "up") })
	if err := c.Signal(t.Context(), s.ID, unix.SIGTERM); err != nil {
		t.Errorf("Signal() = %v", err)
	}
	if exit, err := c.Kill(t.Context(), s.ID); err != nil || exit.Signal != 9 {
		t.Errorf("Kill() = %+v, %v, want death by SIGKILL", exit, err)
	}
	if err := c.Signal(t.Context(), s.ID, unix.SIGTERM); err == nil {
		t.Error("Signal() of an ended task = nil, want an error")
	}
}
