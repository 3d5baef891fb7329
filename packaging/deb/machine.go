// Package deb tests the Debian package: its files, and its life on a machine. The machine is a minimal
// Debian root that boots systemd in a container of systemd-nspawn, with a network of its own:
//
//	mmdebstrap ──▶ cache ──▶ root ──▶ systemd-nspawn --boot ──▶ nsenter: dpkg, systemctl, nomad
//
// A browser of the host opens pages in that network. The tests need root, systemd-nspawn, mmdebstrap, lintian,
// chromium and, for the first run, a mirror of Debian. They run only if NEEDS_DEB=1 is set, as make test-deb does.
// They then fail if one of these is missing.
package deb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Machine is a running container.
type Machine struct {
	Root   string // the directory with its files
	cmd    *exec.Cmd
	leader string // its process 1, in this process's PID namespace
}

// included are the packages of the root in addition to the essential ones.
const included = "systemd,systemd-sysv,dbus,procps"

// Fetch makes the archive of a minimal root in dir, unless it exists, and returns its name. It uses the
// release and the mirrors of this machine.
func Fetch(ctx context.Context, dir string) (string, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	_, name, ok := strings.Cut(string(release), "VERSION_CODENAME=")
	name, _, _ = strings.Cut(name, "\n")
	if !ok {
		return "", errors.New("/etc/os-release has no VERSION_CODENAME")
	}
	archive := filepath.Join(dir, "root-"+name+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	part := archive + ".part.tar"
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include="+included, name, part)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a Debian root with mmdebstrap: %w: %s", err, out)
	}
	return archive, os.Rename(part, archive)
}

// Boot unpacks an archive to root and boots it. Stop ends the machine.
func Boot(ctx context.Context, archive, root string) (*Machine, error) {
	if out, err := exec.CommandContext(ctx, "tar", "-C", root, "-xf", archive).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack the root: %w: %s", err, out)
	}
	m := &Machine{Root: root}
	m.cmd = exec.Command("systemd-nspawn", "--quiet", "--directory="+root,
		"--machine="+fmt.Sprintf("open-nomad-%d", os.Getpid()), "--private-network",
		"--register=no", "--keep-unit", "--console=pipe", "--capability=all", "--boot")
	m.cmd.Env = append(os.Environ(), "SYSTEMD_SECCOMP=0") // its filter has no Landlock
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(root + ".console")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start systemd-nspawn: %w", err)
	}
	return m, nil
}

// errBooting means that the machine does not run commands yet.
var errBooting = errors.New("the machine has not booted")

// Ready returns nil when the machine has booted.
func (m *Machine) Ready(ctx context.Context) error {
	pid := m.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil || len(bytes.Fields(children)) != 1 {
		return errBooting
	}
	m.leader = string(bytes.TrimSpace(children))
	out, err := m.Run(ctx, "systemctl is-system-running")
	if state := strings.TrimSpace(out); err != nil && state != "degraded" {
		return fmt.Errorf("%w: %s", errBooting, state)
	}
	return nil
}

// Leader returns the ID of the machine's process 1, in this process's PID namespace. It is empty before Ready.
func (m *Machine) Leader() string { return m.leader }

// Run runs a shell command in the machine and returns its output.
func (m *Machine) Run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+m.leader, "--all", "/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
		"DEBIAN_FRONTEND=noninteractive"}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return string(out), nil
}

// Console returns what the machine has printed.
func (m *Machine) Console() string {
	text, err := os.ReadFile(m.Root + ".console")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop ends the machine and all of its processes.
func (m *Machine) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGKILL) // its PID namespace ends with process 1, which nspawn kills
	if pid := m.leader; pid != "" {
		_ = exec.Command("kill", "-KILL", pid).Run() // gone already
	}
	_ = m.cmd.Wait() // killed
}
