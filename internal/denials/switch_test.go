package denials

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// host skips the test if the switches cannot be changed. Until t is over it excludes other tests
// that change them, and the start and end of agents that need them: it holds both locks of the
// directory that real agents use.
func host(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(DefaultDir, 0o700); err != nil {
		t.Skipf("needs %s: %v", DefaultDir, err)
	}
	for _, name := range []string{"test", "lock"} {
		f, err := os.OpenFile(filepath.Join(DefaultDir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { f.Close() })
		if err := flock(f, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	was, err := auditing()
	if err == nil && was == 0 {
		if err = setAuditing(0); errors.Is(err, unix.EPERM) {
			t.Skipf("needs CAP_AUDIT_CONTROL: %v", err)
		}
	}
	if err != nil || was != 0 {
		t.Skipf("needs auditing that is off and can be turned on: %d, %v", was, err)
	}
	actions, err := readActions()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if now, err := auditing(); err != nil || now != was {
			t.Errorf("auditing is %d after the test (%v), and was %d", now, err, was)
			setAuditing(was) //nolint:errcheck // reported above
		}
		if now, err := readActions(); err != nil || now != actions {
			t.Errorf("logged actions are %q after the test (%v), and were %q", now, err, actions)
			writeActions(actions) //nolint:errcheck // reported above
		}
	})
}

func enabled(t *testing.T) uint32 {
	t.Helper()
	on, err := auditing()
	if err != nil {
		t.Fatal(err)
	}
	return on
}

func hold(t *testing.T, dir string, mode Mode) *Switch {
	t.Helper()
	s, err := NewSwitch(dir, mode)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSwitch turns auditing on and checks that the last release restores it.
func TestSwitch(t *testing.T) {
	host(t)
	dir := t.TempDir()
	a := hold(t, dir, Audit)
	if enabled(t) != 1 {
		t.Fatal("auditing is not on")
	}
	b := hold(t, dir, Audit)
	if err := a.Release(); err != nil || enabled(t) != 1 {
		t.Errorf("auditing is %d while another agent needs it (%v)", enabled(t), err)
	}
	if err := b.Release(); err != nil || enabled(t) != 0 {
		t.Errorf("auditing is %d when no agent needs it (%v)", enabled(t), err)
	}
	if err := b.Release(); err != nil {
		t.Errorf("Release() again = %v", err)
	}
}

// TestCrash checks that the next agent restores what a crashed one left, whatever mode it has.
func TestCrash(t *testing.T) {
	host(t)
	dir := t.TempDir()
	hold(t, dir, Audit).users.Close() // as the kernel does for a dead process
	if enabled(t) != 1 {
		t.Fatal("auditing is not on")
	}
	hold(t, dir, Off)
	if enabled(t) != 0 {
		t.Error("auditing is on after an agent without need of it began")
	}
	hold(t, dir, Audit).users.Close()
	s := hold(t, dir, Audit)
	if err := s.Release(); err != nil || enabled(t) != 0 {
		t.Errorf("auditing is %d (%v): the second agent took the first one's change for the original state", enabled(t), err)
	}
}

// TestActions removes "errno" from the logged actions, as an operator may.
func TestActions(t *testing.T) {
	host(t)
	before, _ := readActions()
	without := strings.TrimSpace(strings.Replace(" "+before+" ", " errno ", " ", 1))
	if err := writeActions(without); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { writeActions(before) }) //nolint:errcheck // host checks it
	dir := t.TempDir()
	s := hold(t, dir, Calls)
	if now, _ := readActions(); !sameWords(now, before) {
		t.Errorf("logged actions are %q, want errno among them", now)
	}
	if enabled(t) != 0 {
		t.Error("auditing was turned on for seccomp alone")
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	if now, _ := readActions(); now != without {
		t.Errorf("logged actions are %q, want %q as found", now, without)
	}
}

// TestChangedMeanwhile checks that later changes by others stay.
func TestChangedMeanwhile(t *testing.T) {
	host(t)
	s := hold(t, t.TempDir(), Audit)
	if err := setAuditing(0); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil || enabled(t) != 0 {
		t.Errorf("auditing is %d, %v", enabled(t), err)
	}
}

// TestSpoiledState checks that an unreadable state is an error.
func TestSpoiledState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "found"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewSwitch(dir, Audit); err == nil {
		t.Error("Hold() accepted an unreadable state")
	}
}

// TestCommandLinesHidden checks that no record has a command line while only we have auditing on.
// Afterwards the rule is removed, but an operator's own rule stays.
func TestCommandLinesHidden(t *testing.T) {
	host(t)
	s := hold(t, t.TempDir(), Audit)
	if added, err := hideCommandLines(); err != nil || added {
		t.Errorf("the rule was not there: added %t, %v", added, err)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if added, err := hideCommandLines(); err != nil || !added {
		t.Fatalf("the rule was left behind: added %t, %v", added, err)
	}
	t.Cleanup(func() { showCommandLines() }) //nolint:errcheck // checked below
	if err := hold(t, t.TempDir(), Audit).Release(); err != nil {
		t.Fatal(err)
	}
	if added, err := hideCommandLines(); err != nil || added {
		t.Errorf("the operator's own rule was removed: added %t, %v", added, err)
	}
	if err := errors.Join(showCommandLines(), showCommandLines()); err != nil {
		t.Errorf("removing the rule, and again: %v", err)
	}
}

// TestNothingToRestore checks that mode Off needs no directory and no rights.
func TestNothingToRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s, err := NewSwitch(dir, Off)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made for nothing: %v", err)
	}
}
