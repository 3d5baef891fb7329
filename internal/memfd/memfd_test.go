package memfd_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/memfd"
)

func TestNew(t *testing.T) {
	for _, want := range []string{"", "policy", strings.Repeat("x", 3<<20)} {
		f, err := memfd.New("test", []byte(want))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := io.ReadAll(f); err != nil || string(got) != want {
			t.Errorf("a file of %d bytes has %d, %v", len(want), len(got), err)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor flags %#x, %v, want FD_CLOEXEC", flags, err)
		}
		if n, err := f.WriteString("more"); n != 4 || err != nil {
			t.Errorf("WriteString() = %d, %v, want a file that can be written to", n, err)
		}
	}
}

// TestNewProgram runs a copy of true(1), and tries to change it.
func TestNewProgram(t *testing.T) {
	at, err := exec.LookPath("true")
	if err != nil {
		t.Skip("needs true(1)")
	}
	program, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := memfd.NewProgram("true", program)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	name := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	if err := (&exec.Cmd{Path: name, Args: []string{"true"}}).Run(); err != nil {
		t.Errorf("run the program: %v", err)
	}
	if _, err := unix.Pwrite(fd, []byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write to the program: %v, want EPERM", err)
	}
	if err := unix.Ftruncate(fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate the program: %v, want EPERM", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("add a seal: %v, want EPERM", err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v, want FD_CLOEXEC", flags, err)
	}
}
