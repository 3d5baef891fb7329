//go:build amd64 || arm64

package stage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/stage"
)

// withOwnPIDs runs a test with a process that is forked for it, and with a spare.
func withOwnPIDs(t *testing.T, test func(*testing.T, edit)) {
	t.Run("forked", func(t *testing.T) { test(t, ownPIDs) })
	t.Run("spare", func(t *testing.T) { test(t, ownSpare(t)) })
}

// ownSpare is ownPIDs, once, with a spare, which must become the stage.
func ownSpare(t *testing.T) edit {
	t.Helper()
	spare := park(t)
	spare.Await()
	t.Cleanup(func() {
		if err := spare.Wait(); err != nil {
			t.Errorf("Wait() = %v", err)
		}
		if !spare.Used() {
			t.Error("the spare was not used")
		}
	})
	return func(s *stage.Start, p *sandbox.Policy) {
		ownPIDs(s, p)
		s.Spare = spare
	}
}

func park(t *testing.T) *stage.Spare {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	s, err := stage.Park(companion.Path())
	if err != nil {
		t.Fatalf("Park() = %v", err)
	}
	return s
}

// TestSpareIsNotUsed: where a spare is of no use, a process is forked as without it, and
// the spare ends.
func TestSpareIsNotUsed(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *stage.Start, *sandbox.Policy){
		"another kind":     func(_ *testing.T, s *stage.Start, p *sandbox.Policy) { s.Init, p.PrivatePID = false, false },
		"another program":  func(_ *testing.T, s *stage.Start, _ *sandbox.Policy) { s.Program = "/proc/self/exe" },
		"long message":     func(_ *testing.T, s *stage.Start, _ *sandbox.Policy) { s.Join = tooMany(t) },
		"spare has ended":  func(t *testing.T, s *stage.Start, _ *sandbox.Policy) { end(t, s.Spare) },
		"spare is stopped": func(t *testing.T, s *stage.Start, _ *sandbox.Policy) { stop(t, s.Spare) },
	} {
		t.Run(name, func(t *testing.T) {
			spare := park(t)
			r := begin(t, "exit 7", func(s *stage.Start, p *sandbox.Policy) {
				ownPIDs(s, p)
				s.Spare = spare
				spoil(t, s, p)
			})
			if name == "long message" { // no such groups: but it is the stage that says so
				if reason, err := r.Ready(); err != nil || !strings.Contains(reason, "join control group") {
					t.Errorf("Ready() = %q, %v", reason, err)
				}
			} else if ws := r.ready().wait(); ws != 7<<8 {
				t.Errorf("wait status = %#x, want exit 7", ws)
			}
			if err := spare.Wait(); err != nil || spare.Used() {
				t.Errorf("Wait() = %v, used: %t", err, spare.Used())
			}
		})
	}
}

func tooMany(t *testing.T) []string {
	none := t.TempDir() + "/" + strings.Repeat("x", 200)
	var out []string
	for range 100 {
		out = append(out, none)
	}
	return out
}

func end(t *testing.T, s *stage.Spare) {
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, s *stage.Spare) {
	if err := unix.Kill(s.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "the spare is stopped", func() bool { return strings.HasPrefix(field(t, s.PID(), "State"), "T") })
}

// TestSpareForkError: what the kernel refuses is told as without a spare.
func TestSpareForkError(t *testing.T) {
	spare := park(t)
	forkIntoNoGroup(t, spare)
	if err := spare.Wait(); err != nil || spare.Used() {
		t.Errorf("Wait() = %v, used: %t", err, spare.Used())
	}
}

// TestSpareTellsWhatFails: the stage reports as without a spare.
func TestSpareTellsWhatFails(t *testing.T) {
	r := begin(t, "true", func(s *stage.Start, p *sandbox.Policy) {
		ownSpare(t)(s, p)
		p.Dir = "/no/such/directory"
	})
	if reason, err := r.Ready(); err != nil || !strings.Contains(reason, "/no/such/directory") {
		t.Errorf("Ready() = %q, %v, want the step that failed", reason, err)
	}
	if ws := r.wait(); ws != 1<<8 {
		t.Errorf("wait status = %#x, want exit 1", ws)
	}
}

// TestSpareIsClosed when nobody needs it, and by the end of the process that parked it: then
// its socket has no other end.
func TestSpareIsClosed(t *testing.T) {
	s := park(t)
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("Wait() = %v", err)
	}
	s = park(t)
	s.HangUp()
	if err := s.Wait(); err != nil {
		t.Errorf("Wait() = %v", err)
	}
}

// Where the host lets users look into processes that took their user, none is parked.
func TestSpareIsClosedToOthers(t *testing.T) {
	for text, want := range map[string]bool{"0\n": true, "2\n": true, "1\n": false, "": false} {
		setting := filepath.Join(t.TempDir(), "suid_dumpable")
		if err := os.WriteFile(setting, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := stage.ClosedToOthers(setting); (err == nil) != want {
			t.Errorf("with %q: %v", text, err)
		}
	}
	if err := stage.ClosedToOthers(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("without the setting one is parked")
	}
}
