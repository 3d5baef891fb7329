//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// Machine is a client agent whose tasks are real processes. The agent, its supervisor and the tasks are in namespaces
// of their own for processes, mounts and the network. They exist as long as the first process of the machine, so that
// nothing remains even if the test is killed. The end of the first process is the power failure of the machine.
type Machine struct {
	process
	ID     string // of the node, once it is ready
	Parent string // the control group above those of the tasks
	Lost   bool   // its agent is stopped by SIGSTOP, or no server reaches it

	outside *room // the namespace of the network
	config  string
	frozen  bool
	init    *exec.Cmd
}

// boot is the program of the first process: it makes /proc and /run its own, and reaps orphans, because it ignores
// SIGCHLD.
const boot = `mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && trap "" CHLD && echo up &&
exec sleep infinity`

// newMachine returns a machine that was not started.
func (c *Cluster) newMachine(name string, h *Host) (*Machine, error) {
	m := &Machine{outside: h.room, Parent: filepath.Base(c.Dir) + "-" + name + ".slice"}
	var err error
	m.process, err = c.newProcess(name, &Host{Addr: h.Addr})
	return m, err
}

// Boot starts the first process and the agent, and waits until the node is ready.
func (m *Machine) Boot(ctx context.Context) error {
	if err := m.powerOn(); err != nil {
		return fmt.Errorf("boot machine %s: %w", m.Name, err)
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil { // tasks pass it
		return err
	}
	var servers []string
	for _, s := range m.cluster.Servers {
		servers = append(servers, fmt.Sprintf("%q", s.Addr))
	}
	var err error
	m.config, err = m.write(fmt.Sprintf(machineConfig, m.Name, m.Data(), m.host.Addr, strings.Join(servers, ", "),
		m.Parent, m.cluster.MachineConfig))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// machineConfig is the configuration of the agent: name, data directory, address, servers, control group, more.
const machineConfig = `name      = %q
data_dir  = %q
bind_addr = %q
client {
  enabled           = true
  network_interface = "eth0"
  servers           = [%s]
  cgroup_parent     = %q
  %s
}
`

// powerOn starts the first process.
func (m *Machine) powerOn() error {
	m.init = exec.Command("/bin/sh", "-c", boot)
	m.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL, Setpgid: true}
	m.init.Stderr = os.Stderr
	out, err := m.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.outside.do(m.init.Start); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		return errors.Join(fmt.Errorf("prepare its mounts: %w", err), m.PowerOff())
	}
	m.host.room, err = joinRoom(m.init.Process.Pid)
	return err
}

// PowerOff ends every process of the machine at once, and removes its control groups, which no machine keeps.
func (m *Machine) PowerOff() error {
	if m.init == nil {
		return nil
	}
	err := m.init.Process.Kill()
	_ = m.init.Wait() // killed by a signal
	m.init = nil
	if m.cmd != nil {
		<-m.done // it was in the namespace
	}
	if m.host.room != nil {
		err = errors.Join(err, m.host.room.close())
	}
	return errors.Join(err, cluster.RemoveGroups(m.Parent, endWithin))
}

// Start starts the agent with the data of its directory, and waits until the node is ready.
func (m *Machine) Start(ctx context.Context) error {
	// It ends with the first process. A signal at the end of its parent does not work across namespaces: the Go
	// runtime compares the parent's ID, which is 0 there.
	if err := m.run(ctx, m.config, &syscall.SysProcAttr{}); err != nil {
		return err
	}
	return within(ctx, readyWithin, "node "+m.Name+" is ready", func(ctx context.Context) error {
		for _, s := range m.cluster.answering(nil) {
			nodes, _, err := s.Client.Nodes().List(query(ctx))
			if err != nil {
				return err
			}
			for _, stub := range nodes {
				if stub.Name == m.Name && stub.Status == "ready" {
					m.ID = stub.ID
					return nil
				}
			}
		}
		return errors.New("no server lists it")
	})
}

// Freeze stops the agent with SIGSTOP: its tasks run on.
func (m *Machine) Freeze() error {
	m.Lost, m.frozen = true, true
	return m.cmd.Process.Signal(unix.SIGSTOP)
}

// Cut drops the packets of all servers.
func (m *Machine) Cut() error {
	m.Lost = true
	var losses []Loss
	for _, s := range m.cluster.Servers {
		losses = append(losses, Loss{From: s.host.Addr, Percent: 100})
	}
	return m.host.Lose(losses...)
}

// Return undoes Freeze and Cut.
func (m *Machine) Return() error {
	m.Lost = false
	if !m.frozen {
		return m.host.Lose()
	}
	m.frozen = false
	return m.cmd.Process.Signal(unix.SIGCONT)
}

// Data returns the data directory of the agent.
func (m *Machine) Data() string { return filepath.Join(m.Dir, "data") }

// Pids returns the processes of the machine, by their IDs outside of it, without the first one.
func (m *Machine) Pids() ([]int, error) {
	if m.init == nil {
		return nil, nil
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.init.Process.Pid))
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name)) // digits by the pattern
		ns, err := os.Readlink(name + "/ns/pid")    // the process may have ended
		if err == nil && pid != m.init.Process.Pid && nested(ns, own, pid) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// nested reports whether a process is in the namespace own, or in one below it: the process then has an ID in
// each of them.
func nested(ns, own string, pid int) bool {
	if ns == own {
		return true
	}
	for parent := pid; parent > 1; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
		if err != nil {
			return false // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		parent, _ = strconv.Atoi(fields[1]) // a number in every kernel
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", parent)); err == nil && ns == own {
			return true
		}
	}
	return false
}

// Supervisor returns the process ID of the supervisor, 0 if none runs.
func (m *Machine) Supervisor() int {
	pids, _ := m.Pids() // none of a machine that is off
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if strings.HasPrefix(string(text), "nomad-supervise\x00") {
			return pid
		}
	}
	return 0
}

// Output runs a program in the network namespace of the machine.
func (m *Machine) Output(program string, args ...string) (out []byte, err error) {
	err = m.host.room.do(func() (err error) {
		out, err = exec.Command(program, args...).Output()
		return err
	})
	return out, err
}

// Mounts returns the mountpoints of the machine.
func (m *Machine) Mounts() ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", m.init.Process.Pid))
	var out []string
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Fields(line)[4])
	}
	return out, err
}

// Root returns the path of a file of the machine for the test.
func (m *Machine) Root(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.init.Process.Pid, path)
}

// joinRoom returns a thread in the namespaces of a process.
func joinRoom(pid int) (*room, error) {
	return enterRoom(func() (*os.File, error) {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return nil, err
		}
		var network *os.File
		for _, kind := range []string{"net", "pid", "mnt"} { // with the last one, /proc is another
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			if err != nil {
				return nil, err
			}
			if err := unix.Setns(int(ns.Fd()), 0); err != nil {
				return nil, fmt.Errorf("enter the %s namespace of process %d: %w", kind, pid, err)
			}
			if kind == "net" {
				network = ns // Dial enters it
				continue
			}
			ns.Close()
		}
		return network, nil
	})
}

// Groups lists the control groups of tasks.
func (m *Machine) Groups() []string {
	roots, _ := cluster.Groups(m.Parent, "") // a valid pattern
	var out []string
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // a group may end meanwhile
			if err == nil && d.IsDir() {
				out = append(out, path)
			}
			return nil
		})
	}
	return out
}
