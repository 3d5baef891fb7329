// Command init is process 1 of a guest. It mounts the usual file systems, runs the programs of
// /commands.json one after the other, and powers off. It prints "== run NAME" before each and "==
// exit NAME CODE" after it, and "== done" at the end.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// command is one line of /commands.json.
type command struct {
	Name, Dir string
	Args, Env []string
	Seconds   int
}

func main() {
	if err := run(); err != nil {
		fmt.Println("== init:", err)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) //nolint:errcheck // no process is left to report to
	select {}
}

// mounts are made in this order.
var mounts = []struct{ kind, at, data string }{
	{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", ""},
	{"tmpfs", "/dev/shm", "mode=1777"}, {"mqueue", "/dev/mqueue", ""}, {"cgroup2", "/sys/fs/cgroup", ""},
	{"securityfs", "/sys/kernel/security", ""}, {"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/var/tmp", "mode=1777"},
	{"tmpfs", "/run", "mode=755"},
}

func run() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for name, target := range map[string]string{
		"fd":     "/proc/self/fd",
		"stdin":  "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	} {
		os.Symlink(target, "/dev/"+name) //nolint:errcheck // some exist
	}
	// Process IDs of the guest must differ from those of a new PID namespace.
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("5000"), 0); err != nil {
		return err
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	text, err := os.ReadFile("/commands.json")
	if err != nil {
		return err
	}
	var list []command
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, c := range list {
		c.run()
	}
	fmt.Println("== done")
	return nil
}

// loopback enables the interface "lo".
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// grace is the additional time for a program to end by itself. The program's own timeout reports
// where it blocked.
const grace = 10 * time.Second

// run runs one program within its time limit.
func (c command) run() {
	fmt.Println("== run", c.Name)
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append([]string{"PATH=/usr/bin:/bin:/sbin", "HOME=/root", "TMPDIR=/tmp"}, c.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.WaitDelay = 5 * time.Second
	code := 1
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	} else {
		timer := time.AfterFunc(time.Duration(c.Seconds)*time.Second+grace, func() {
			cmd.Process.Kill() //nolint:errcheck // it may have ended
		})
		cmd.Wait() //nolint:errcheck // the exit code has the result
		timer.Stop()
		code = cmd.ProcessState.ExitCode()
	}
	fmt.Println("== exit", c.Name, code)
}
