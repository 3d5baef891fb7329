package companion_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/open-nomad/open-nomad/internal/companion"
)

func init() {
	companion.Register("companion-test", func() int {
		if name, err := os.ReadFile("/proc/self/comm"); err != nil || string(name) != "companion-test\n" {
			return 1
		}
		return 40 + len(os.Args)
	})
	companion.RegisterThread("companion-thread", func() int { return 50 + len(os.Args) })
	companion.Init() // runs only the second entry
	if len(os.Args) > 0 && os.Args[0] == "companion-thread" {
		panic("Init() left the entry to Main")
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "without Main" {
		companion.Self()
		os.Exit(0)
	}
	companion.Main()
	os.Exit(m.Run())
}

func TestEntry(t *testing.T) {
	if companion.Embedded() {
		t.Skip("the embedded program does not have the entries of this test")
	}
	for name, want := range map[string]int{"companion-test": 42, "companion-thread": 52} {
		cmd := &exec.Cmd{Path: companion.Path(), Args: []string{name, "x"}, Env: []string{}}
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s ended with %v, want status %d", name, err, want)
		}
	}
}

// A program that does not call Main cannot start itself again and again.
func TestSelf_WithoutMain(t *testing.T) {
	for name, want := range map[string]int{"companion-test": 2, "no entry": 0} {
		cmd := &exec.Cmd{Path: companion.Self(), Args: []string{name, "without Main"}, Env: []string{}}
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s ended with %v, want status %d", name, err, want)
		}
	}
}

// neighbor is never collected, since its finalizer would close a descriptor of another file.
var neighbor *os.File

// Between fork and exec a child moves its end of a pipe to the number above all inherited ones,
// which in this test is the program's own number.
func TestDescriptorsMayMove(t *testing.T) {
	if !companion.Embedded() {
		t.Skip("this build embeds none (tag companion)")
	}
	room, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	var more [2]*os.File
	for i := range more {
		if more[i], err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	}
	n, err := strconv.Atoi(filepath.Base(companion.Path()))
	if err != nil {
		t.Fatal(err)
	}
	neighbor = os.NewFile(uintptr(n-1), "the number below the program's")
	for _, f := range more {
		f.Close() // makes room for the pipe
	}
	cmd := &exec.Cmd{Path: companion.Path(), Args: []string{"by-hand"}, Env: []string{}, Stdin: room, Stdout: room, Stderr: room,
		ExtraFiles: []*os.File{neighbor}}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start() = %v", err)
	}
	cmd.Wait() //nolint:errcheck // run by hand, it exits with an error
	room.Close()
}

// TestEmbedded checks that the embedded program starts, cannot be changed, and exits with an error
// when run by hand.
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
