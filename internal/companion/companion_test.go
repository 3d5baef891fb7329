package companion_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/open-nomad/open-nomad/internal/companion"
)

func init() {
	companion.Register("companion-test", func() int { return 40 + len(os.Args) })
}

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

func TestEntry(t *testing.T) {
	if companion.Embedded() {
		t.Skip("the embedded program does not have the entries of this test")
	}
	cmd := &exec.Cmd{Path: companion.Path(), Args: []string{"companion-test", "x"}, Env: []string{}}
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 42 {
		t.Errorf("entry ended with %v, want status 42", err)
	}
}

// TestEmbedded sees that the embedded program starts, can't be changed, and refuses
// to be run by hand.
func TestEmbedded(t *testing.T) {
	if !companion.Embedded() {
		t.Skip("this build embeds none (tag companion)")
	}
	if err := os.WriteFile(companion.Path(), []byte("x"), 0); err == nil {
		t.Error("the sealed program was overwritten")
	}
	cmd := &exec.Cmd{Path: companion.Path(), Args: []string{"by-hand"}, Env: []string{}}
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("run by hand: %v, want status 2", err)
	}
	if companion.Sum() == "" {
		t.Error("Sum() is empty")
	}
}

func TestRegisterTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("registering an entry twice did not panic")
		}
	}()
	companion.Register("companion-test", func() int { return 0 })
}
