package chroot

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// programDirs are the directories of programs in a root.
var programDirs = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// defaultPath is the PATH of a task whose agent has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// setup is a task as this node runs it.
type setup struct {
	*Driver
	set     Plugin
	cfg     *drivers.TaskConfig
	command Command
	account hostuser.User
	caps    uint64
}

// setup makes the checks of a task.
func (d *Driver) setup(cfg *drivers.TaskConfig) (*setup, error) {
	s := &setup{Driver: d, set: d.Current(), cfg: cfg}
	if err := s.usable(); err != nil {
		return nil, err
	}
	var err error
	if s.command, err = d.variant.Command(cfg); err != nil {
		return nil, err
	}
	if s.account, err = s.set.account(cfg.User); err != nil {
		return nil, err
	}
	s.caps, err = s.set.capabilities(s.command.CapAdd, s.command.CapDrop)
	return s, err
}

// account returns the user of a task.
func (p *Plugin) account(user string) (hostuser.User, error) {
	if user == "" {
		user = DefaultUser
	}
	acc, err := hostuser.Lookup(user)
	if err != nil {
		return acc, fmt.Errorf("failed host user validation: failed to identify user %q: %w", user, err)
	}
	if p.DeniedUIDs.Has(acc.UID) {
		return acc, fmt.Errorf("failed host user validation: running as uid %d is disallowed", acc.UID)
	}
	for _, gid := range append([]uint32{acc.GID}, acc.Groups...) {
		if p.DeniedGIDs.Has(gid) {
			return acc, fmt.Errorf("failed host user validation: running as gid %d is disallowed", gid)
		}
	}
	return acc, nil
}

// policy returns the policy of the task.
func (s *setup) policy() (*sandbox.Policy, error) {
	mounts, err := s.mounts()
	if err != nil {
		return nil, err
	}
	p := &sandbox.Policy{
		Argv: append([]string{s.command.Program}, s.command.Args...), Dir: s.command.WorkDir, DirAs: sandbox.DirAsUser,
		Search: s.search(), NotFound: s.notFound(), Executable: true, Env: s.environment().Apply(s.cfg.Env),
		PrivatePID: s.mode(s.command.PIDMode, s.set.PIDMode), PrivateIPC: s.mode(s.command.IPCMode, s.set.IPCMode),
		NetNS: s.cfg.NetNS, Hostname: s.cfg.Hostname, Mounts: mounts,
		User:         &sandbox.User{UID: s.account.UID, GID: s.account.GID, Groups: s.account.Groups},
		Capabilities: s.caps, KeepPrivileges: !s.set.NoPrivileges, Seccomp: sandbox.SeccompNone,
	}
	if p.Dir == "" {
		p.Dir = "/"
	}
	if s.set.Landlock && landlockABI() >= landlock.ABIFiles {
		p.Files = &sandbox.Files{Paths: []sandbox.Path{{Modes: "rwxc", Name: "/"}}, Ioctl: true, Signal: p.PrivatePID, MinABI: landlock.ABIFiles}
	}
	if !s.set.Seccomp {
		return p, nil
	}
	profile, err := seccomp.Standard()
	if err != nil {
		return nil, err
	}
	return p, process.SetFilter(p, profile)
}

// mode reports whether a namespace is private.
func (s *setup) mode(task, plugin string) bool {
	if task == "" {
		task = plugin
	}
	return task != modeHost
}

// mounts returns the root of the task.
func (s *setup) mounts() (*sandbox.Mounts, error) {
	hidden, err := process.Existing(append(slices.Clone(s.agentDirs), filepath.Dir(s.cfg.AllocDir)))
	if err != nil {
		return nil, err
	}
	l := &layout{cfg: s.cfg, agentDirs: hidden}
	if err := l.host(s.env); err != nil {
		return nil, err
	}
	if err := l.task(); err != nil {
		return nil, err
	}
	if err := l.devices(); err != nil {
		return nil, err
	}
	if err := l.checkHidden(); err != nil {
		return nil, err
	}
	dir, err := process.InAlloc(s.cfg, s.cfg.TaskDir)
	if err != nil {
		return nil, err
	}
	slices.Sort(l.hide)
	root := &sandbox.Root{Dir: dir, Links: l.links, Setuid: s.set.Setuid, Devices: s.set.Devices}
	if s.caps&overriding != 0 && !s.set.HostFileOwner {
		if root.Users, err = s.owners.path(s.account); err != nil {
			return nil, err
		}
	}
	return &sandbox.Mounts{Root: root, Hide: slices.Compact(l.hide), Binds: l.binds}, nil
}

// search returns the directories of programs in the order of Nomad: the task's, its volumes, the host's.
func (s *setup) search() []string {
	out := []string{localDir, "/"}
	for _, m := range s.cfg.Mounts {
		out = append(out, filepath.Clean(m.TaskPath))
	}
	return append(out, programDirs...)
}

// notFound returns the error for a program that does not exist.
func (s *setup) notFound() string {
	text := "failed to launch command with executor: rpc error: code = Unknown desc = file " + s.command.Program + " not found under path"
	if strings.Contains(s.command.Program, "/") {
		text += " " + s.cfg.TaskDir
	}
	return text
}

// environment is the client's environment with the variables of the task's user.
func (s *setup) environment() process.Environment {
	return process.Environment{
		Default: map[string]string{"PATH": defaultPath},
		Set:     map[string]string{"USER": s.account.Name, "LOGNAME": s.account.Name, "HOME": s.account.Home},
	}
}

// limits returns the limits of the task's control group: a hard one of memory and of processes, a weight of CPU.
func (s *setup) limits() *cgroup.Limits {
	r := s.cfg.Limits
	l := &cgroup.Limits{MemoryMax: r.MemoryBytes, CPUShares: r.CPUShares, Cores: r.Cores, Processes: s.set.PIDsLimit}
	switch {
	case r.MemoryMaxBytes < 0:
		l.MemoryLow, l.MemoryMax = r.MemoryBytes, 0
	case r.MemoryMaxBytes > 0:
		l.MemoryLow, l.MemoryMax = r.MemoryBytes, max(r.MemoryMaxBytes, r.MemoryBytes)
	}
	return l
}

func landlockABI() int {
	abi, err := landlock.ABI()
	if err != nil {
		return 0
	}
	return abi
}
