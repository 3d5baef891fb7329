package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Plugin is a program of the operator that works for the node and not in a task, such as a plugin of secret blocks.
type Plugin struct {
	Name    string   // of its control group
	Program *os.File // executed by descriptor; nil: Args[0] is the path of a program as the plugin sees it
	Args    []string
	Env     map[string]string
	UID     int    // its user and group, -1 for those of the agent
	Tmp     string // shown as its /tmp: a directory of its user, below one that only the agent can enter
	Stdio   [3]*os.File
}

// Limits of a plugin.
const (
	pluginMemory    = 512 << 20
	pluginProcesses = 64
	pluginFile      = 16 << 20
)

// pluginPaths are what a plugin can access besides its /tmp: programs, libraries, the configuration of the machine as its user
// can read it, and what resolves names.
var pluginPaths = []sandbox.Path{
	{Modes: "rx", Name: "/bin"}, {Modes: "rx", Name: "/sbin"}, {Modes: "rx", Name: "/usr"}, {Modes: "rx", Name: "/opt"},
	{Modes: "r", Name: "/etc"}, {Modes: "r", Name: "/proc"}, {Modes: "r", Name: "/run/systemd/resolve"},
	{Modes: "rw", Name: os.DevNull}, {Modes: "r", Name: "/dev/zero"}, {Modes: "r", Name: "/dev/random"}, {Modes: "r", Name: "/dev/urandom"},
}

// ConfinePlugin runs a plugin until it ends; the end of ctx kills it and its descendants. It has no capabilities, and
// namespaces of its own, except for that of the network. Landlock restricts it to pluginPaths and its /tmp. It cannot make the
// system calls that the default profile refuses. It has a control group of its own.
func (c *Confiner) ConfinePlugin(ctx context.Context, p *Plugin) (*drivers.ExitResult, error) {
	policy, err := c.pluginPolicy(p)
	if err != nil {
		return nil, err
	}
	group, err := pluginGroup(p.Name)
	if err != nil {
		return nil, err
	}
	return c.Sidecars.Confine(ctx, Confinement{Policy: policy, Group: group}, &drivers.Sidecar{Program: p.Program, Args: p.Args, Stdio: p.Stdio})
}

// pluginPolicy returns the policy of a plugin.
func (c *Confiner) pluginPolicy(p *Plugin) (*sandbox.Policy, error) {
	out := &sandbox.Policy{Argv: p.Args, Env: Environ(p.Env), Dir: "/", DirAs: sandbox.DirAsUser, ByDescriptor: p.Program != nil,
		OOMScoreAdj: sidecarOOMScore,
		Rlimits:     []sandbox.Rlimit{{Resource: unix.RLIMIT_CORE}, {Resource: unix.RLIMIT_FSIZE, Soft: pluginFile, Hard: pluginFile}}}
	root := os.Geteuid() == 0
	if root {
		if p.UID < 0 {
			return nil, errors.New("a plugin needs a user of its own if the agent runs as root")
		}
		out.User = &sandbox.User{UID: uint32(p.UID), GID: uint32(p.UID)}
	}
	err := OwnNamespaces()
	if err == nil {
		out.OwnUsers, out.PrivatePID, out.PrivateIPC = !root, true, true
		out.Mounts = &sandbox.Mounts{Hide: hiddenDirs, Proc: true,
			// A bind instead of Tmp: its source is opened before the directories of the agent are hidden.
			Binds: []sandbox.Bind{{Source: sandbox.Path{Name: filepath.Base(p.Tmp), Beneath: filepath.Dir(p.Tmp)}, Target: "/tmp"}}}
		if err := HideAgent(out.Mounts, c.AgentDirs); err != nil {
			return nil, err
		}
	} else if root {
		return nil, err
	}
	out.Files = &sandbox.Files{MinABI: landlock.ABIFiles, Paths: []sandbox.Path{{Modes: "rwxc", Name: PluginTmp(p.Tmp)}}}
	for _, path := range pluginPaths {
		path.Optional = true
		out.Files.Paths = append(out.Files.Paths, path)
	}
	for _, name := range sidecar.SharedLibraries {
		out.Files.Paths = append(out.Files.Paths, sandbox.Path{Modes: "rx", Name: name, Optional: true})
	}
	if out.OwnUsers {
		out.KeepLinks()
	}
	profile, err := seccomp.Standard()
	if err != nil {
		return nil, err
	}
	return out, SetFilter(out, profile)
}

// PluginTmp returns the path of a Tmp as its plugin sees it. Without namespaces that is its path on the host.
func PluginTmp(tmp string) string {
	if OwnNamespaces() == nil {
		return "/tmp"
	}
	return tmp
}

// pluginGroup returns the control group of a plugin, nil if this agent cannot use groups.
func pluginGroup(name string) (*proc.GroupSpec, error) {
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parent, _ := drivers.TaskGroup("", "", "", nil)
	return &proc.GroupSpec{Group: proc.Group{Parent: parent, Name: "plugin." + name + ".scope"},
		Limits: cgroup.Limits{MemoryMax: pluginMemory, Processes: pluginProcesses}}, nil
}
