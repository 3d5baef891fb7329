package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// privateVar is set in a test process that Private started.
const privateVar = "OPEN_NOMAD_TEST_PRIVATE_NETWORK"

// privateDirs are empty in the process: network plugins keep their files there.
var privateDirs = []string{"/run/netns", "/run/cni", "/var/lib/cni"}

// Private runs the tests of a package in a process with its own network and mount namespaces, so that
// they can change bridges and firewall rules. Without root it runs them in this process, and IsPrivate
// is false. Call it from TestMain.
func Private(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if os.Getenv(privateVar) != "" {
		if err := preparePrivate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), privateVar+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests in a network namespace:", err)
		return 1
	}
	return 0
}

// needVar makes missing packages a failure, in CI.
const needVar = "NEEDS_NETWORK"

// Missing skips a test that needs something of the machine, or fails it if CI has installed it.
func Missing(t testing.TB, why any) {
	t.Helper()
	if os.Getenv(needVar) != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// IsPrivate reports whether the process may change its network.
func IsPrivate() bool { return os.Getenv(privateVar) != "" }

func preparePrivate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	for _, dir := range privateDirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
			return fmt.Errorf("mount an empty %s: %w", dir, err)
		}
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("set the loopback interface up: %w: %s", err, out)
	}
	return nil
}

// Inside calls do on a thread in the network namespace at path, "" for that of the process. The thread
// ends with the call. What do opens stays in the namespace.
func Inside(path string, do func() error) error {
	if path == "" {
		return do()
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	testthread.Run(func() {
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter %s: %w", path, err)
			return
		}
		err = do()
	})
	return err
}
