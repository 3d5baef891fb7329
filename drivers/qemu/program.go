package qemu

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// prefix is that of all emulators, and defaultEmulator the suffix of the default one.
const prefix, defaultEmulator = "qemu-system-", "x86_64"

// Names of the sockets in the task's temporary directory.
const monitorName, agentName = "qm.sock", "qa.sock"

// maxSocket is the kernel's limit of a socket's path.
const maxSocket = 108

// program returns the program of a task.
func (d *Driver) program(cfg *drivers.TaskConfig) (*process.Program, error) {
	set := d.Current()
	o, err := decodeOptions(cfg.Config)
	if err != nil {
		return nil, err
	}
	if err := usable(); err != nil {
		return nil, err
	}
	if err := set.check(&o, cfg); err != nil {
		return nil, err
	}
	m := &machine{cfg: cfg, options: o}
	if m.binary, err = resolve(o.emulator); err != nil {
		return nil, err
	}
	if !slices.Contains(driveInterfaces, o.drive) {
		//lint:ignore ST1005 the text is that of Nomad
		return nil, errors.New("Unsupported drive_interface")
	}
	if err := m.command(); err != nil {
		return nil, err
	}
	p := &process.Program{Environment: m.environment(), Limits: m.limits(), Kept: map[string]string{}}
	if o.graceful {
		p.Kept[monitorKey], p.Kept[dirKey] = m.socket(monitorName), cfg.AllocDir
	}
	if p.Policy, err = m.policy(p.Environment, d.agentDirs); err != nil {
		return nil, err
	}
	p.Declared, err = sandbox.Declare(p.Policy)
	return p, err
}

// resolve returns the path of an emulator, without links.
func resolve(emulator string) (string, error) {
	name := prefix + strings.TrimPrefix(emulator, prefix)
	if emulator == "" {
		name = prefix + defaultEmulator
	}
	path := ""
	err := error(nil)
	if filepath.Base(name) != name {
		err = exec.ErrNotFound
	} else if path, err = exec.LookPath(name); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("failed to resolve path to %q executable: %w", name, err)
	}
	return path, nil
}

// machine is the emulator of a task.
type machine struct {
	cfg *drivers.TaskConfig
	options
	binary string
	argv   []string
}

// socket returns the path of a socket.
func (m *machine) socket(name string) string { return filepath.Join(process.TmpDir(m.cfg), name) }

// imageFile returns the path of the image.
func (m *machine) imageFile() string {
	if filepath.IsAbs(m.image) {
		return filepath.Clean(m.image)
	}
	return filepath.Join(m.cfg.TaskDir, m.image)
}

// command builds the command line.
func (m *machine) command() error {
	m.argv = []string{m.binary, "-machine", "type=" + m.machine + ",accel=" + m.accelerator, "-name", comma(base(m.image)),
		"-m", strconv.FormatInt(m.cfg.Limits.MemoryBytes>>20, 10) + "M",
		"-drive", "file=" + comma(m.imageFile()) + ",if=" + m.drive + ",id=image0", "-nographic"}
	for _, name := range []string{monitorName, agentName} {
		if used := name == monitorName && m.graceful || name == agentName && m.guestAgent; used && len(m.socket(name)) >= maxSocket {
			return fmt.Errorf("the path of the socket %s has more than %d bytes: use a shorter alloc_dir or task name", m.socket(name), maxSocket-1)
		}
	}
	if m.graceful {
		m.argv = append(m.argv, "-monitor", "unix:"+comma(m.socket(monitorName))+",server=on,wait=off")
	}
	if m.guestAgent {
		m.argv = append(m.argv, "-chardev", "socket,path="+comma(m.socket(agentName))+",server=on,wait=off,id=qga0",
			"-device", "virtio-serial", "-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0")
	}
	if m.accelerator == "kvm" {
		m.argv = append(m.argv, "-enable-kvm")
		if cores := len(m.cfg.Limits.Cores); cores > 0 && !slices.Contains(m.args, "-smp") {
			m.argv = append(m.argv, "-smp", strconv.Itoa(cores))
		}
	}
	m.argv = append(m.argv, m.args...)
	return m.network()
}

// comma escapes a value of an option of the emulator.
func comma(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// network adds a user network that forwards the mapped ports.
func (m *machine) network() error {
	ports, err := m.forwarded()
	if err != nil {
		return err
	}
	var opts []string
	for _, p := range ports {
		for _, protocol := range []string{"udp", "tcp"} {
			opts = append(opts, fmt.Sprintf("hostfwd=%s::%d-:%d", protocol, p.Value, p.To))
		}
	}
	if dns := m.cfg.DNS; dns != nil && len(dns.Servers) > 0 {
		if _, err := netip.ParseAddr(dns.Servers[0]); err != nil {
			return fmt.Errorf("dns server %q: %w", dns.Servers[0], err)
		}
		opts = append(opts, "dns="+dns.Servers[0])
	}
	if dns := m.cfg.DNS; dns != nil {
		for _, search := range dns.Searches {
			opts = append(opts, "dnssearch="+comma(search))
		}
	}
	if len(opts) > 0 {
		m.argv = append(m.argv, "-netdev", "user,id=user.0,"+strings.Join(opts, ","), "-device", "virtio-net,netdev=user.0")
	}
	return nil
}

// forwarded returns the ports of the task's own network block that port_map maps, with the port of the
// guest in To. Without such a block, port_map has no effect.
func (m *machine) forwarded() (out []drivers.Port, err error) {
	ports := slices.DeleteFunc(slices.Clone(m.cfg.Ports), func(p drivers.Port) bool { return !p.Own })
	if len(ports) == 0 {
		return nil, nil
	}
	for _, label := range slices.Sorted(maps.Keys(m.portMap)) {
		i := slices.IndexFunc(ports, func(p drivers.Port) bool { return p.Label == label })
		if i < 0 {
			//lint:ignore ST1005 the text is that of Nomad
			return nil, fmt.Errorf("Unknown port label %q", label)
		}
		p := ports[i]
		p.To = m.portMap[label]
		out = append(out, p)
	}
	return out, nil
}

// environment returns the variables of the emulator: those of the task, with the ports of the guest.
func (m *machine) environment() process.Environment {
	e := process.Environment{Set: map[string]string{"TMPDIR": process.TmpDir(m.cfg)}, Without: []string{"LD_*", "QEMU_*"}}
	ports, _ := m.forwarded() // command has returned its error
	for _, p := range ports {
		e.Set["NOMAD_PORT_"+p.Label] = strconv.Itoa(p.To)
		e.Set["NOMAD_HOST_PORT_"+p.Label] = strconv.Itoa(p.Value)
	}
	return e
}

// Limits of the control group. The memory of the emulator itself is that of its code, of translated code and
// of its devices.
const maxProcesses, overhead = 1024, 1 << 30

// limits returns the limits of the emulator. The memory of the task is that of the guest.
func (m *machine) limits() *cgroup.Limits {
	l := m.cfg.Limits
	out := &cgroup.Limits{CPUShares: l.CPUShares, Cores: l.Cores, Processes: maxProcesses,
		MemoryMax: max(l.MemoryBytes, l.MemoryMaxBytes) + overhead}
	if l.MemoryMaxBytes < 0 {
		out.MemoryMax = 0
	}
	return out
}

// noCore turns off core dumps, which would contain the guest's memory.
var noCore = []sandbox.Rlimit{{Resource: unix.RLIMIT_CORE}}

// existing reports whether a path exists.
func existing(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
