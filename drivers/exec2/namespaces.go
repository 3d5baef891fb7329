package exec2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Places that are the task's own in its mount namespace.
const (
	privateTmp  = "/tmp"
	privateProc = "/proc"
)

// hiddenDirs look empty to tasks, but for what they are granted there: services of the host have
// their sockets in them, to which file modes alone decide who connects.
var hiddenDirs = []string{"/run", "/var/run"}

// isolate gives the task namespaces of its own: of processes, of which it sees its own
// only, in a fresh /proc; of IPC; of mounts, with its temporary directory as /tmp, its
// volumes and the files that the client laid, and nothing in /run but what it is granted; and the network that it was given. It adds
// to the policy's paths what it binds.
func isolate(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	own, err := inAlloc(cfg, tmpDir(cfg))
	if err != nil {
		return err
	}
	p.PrivatePID, p.PrivateIPC, p.NetNS = true, true, cfg.NetNS
	p.Mounts = &sandbox.Mounts{Hide: hiddenDirs, View: ownAllocation(cfg), Tmp: own, Proc: true}
	if os.Geteuid() != 0 && cfg.LogDir != "" { // the files there are the task's user's, who could change them
		logs, err := inAlloc(cfg, cfg.LogDir)
		if err != nil {
			return err
		}
		show(p, sandbox.Bind{Source: logs, Target: logs.Name, Beneath: logs.Beneath, ReadOnly: true}, "r")
	}
	for _, m := range cfg.Mounts {
		b, err := volume(cfg, m)
		if err != nil {
			return fmt.Errorf("volume at destination %q: %w", m.TaskPath, err)
		}
		modes := "rwxc"
		if m.ReadOnly {
			modes = "rx"
		}
		show(p, b, modes)
	}
	for _, f := range cfg.Files {
		// The host's may be a link, which is the host's matter: the file lies where it leads.
		target, err := filepath.EvalSymlinks(f.Target)
		if err != nil {
			return fmt.Errorf("lay a file over %s: %w", f.Target, onNode(err))
		}
		show(p, sandbox.Bind{Source: sandbox.Path{Name: f.Name, Beneath: cfg.AllocDir}, Target: target, ReadOnly: true}, "r")
	}
	return nil
}

// ownAllocation hides the directories of other allocations, which lie beside the task's.
func ownAllocation(cfg *drivers.TaskConfig) sandbox.View {
	return sandbox.View{Dir: filepath.Dir(cfg.AllocDir), Own: filepath.Base(cfg.AllocDir)}
}

// show adds a bind, with rights at its target.
func show(p *sandbox.Policy, b sandbox.Bind, modes string) {
	p.Mounts.Binds = append(p.Mounts.Binds, b)
	p.Files.Paths = append(p.Files.Paths, sandbox.Path{Modes: modes, Name: b.Target, Beneath: b.Beneath})
}

// volume says where a volume is bound. In directories that the task can write its
// mount point is made if need be; elsewhere it must be there.
func volume(cfg *drivers.TaskConfig, m drivers.Mount) (sandbox.Bind, error) {
	b := sandbox.Bind{Source: sandbox.Path{Name: filepath.Clean(m.HostPath)}, Target: filepath.Clean(m.TaskPath), ReadOnly: m.ReadOnly}
	switch {
	case !filepath.IsAbs(b.Target) || b.Target == "/":
		return b, errors.New("it must be a path below the root")
	case below(b.Target, privateProc):
		return b, errors.New("the task has a /proc of its own")
	case below(b.Target, cfg.TaskDir) || below(b.Target, cfg.SharedDir):
		return beneath(b, cfg, b.Target)
	case below(b.Target, cfg.AllocDir):
		return b, errors.New("it lies in a directory of another task")
	case below(b.Target, privateTmp): // seen in the task's own
		return beneath(b, cfg, filepath.Join(tmpDir(cfg), strings.TrimPrefix(b.Target, privateTmp)))
	}
	_, err := os.Lstat(b.Target)
	if errors.Is(err, fs.ErrNotExist) {
		return b, errors.New("it does not exist on this node, and does not lie in the task's directory, where it would be made")
	}
	return b, err
}

func beneath(b sandbox.Bind, cfg *drivers.TaskConfig, target string) (sandbox.Bind, error) {
	at, err := inAlloc(cfg, target)
	b.Target, b.Beneath = at.Name, at.Beneath
	return b, err
}

// inAlloc is a path reached from the allocation's directory, which is root's.
func inAlloc(cfg *drivers.TaskConfig, name string) (sandbox.Path, error) {
	rel, err := filepath.Rel(cfg.AllocDir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return sandbox.Path{}, fmt.Errorf("%s is not inside the allocation's directory", name)
	}
	return sandbox.Path{Name: rel, Beneath: cfg.AllocDir}, nil
}

// separate gives the task its namespaces, or refuses what needs them where there are
// none, which the operator has allowed.
func separate(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	if ownNamespaces() != nil {
		return unshared(cfg)
	}
	if os.Geteuid() != 0 {
		if cfg.NetNS != "" {
			return errors.New("the task wants a network of its own, for which this node's agent would have to be root")
		}
		p.OwnUsers = true
	}
	return isolate(p, cfg)
}

// unshared refuses what needs namespaces on a node whose agent cannot make them.
func unshared(cfg *drivers.TaskConfig) error {
	for _, what := range []struct {
		asked bool
		name  string
	}{{cfg.NetNS != "", "a network of its own"}, {len(cfg.Mounts) > 0, "volumes"}, {len(cfg.Files) > 0, "files laid over the host's, such as those of a dns block"}} {
		if what.asked {
			return fmt.Errorf("the task wants %s, which takes namespaces, and this node's agent cannot make any: %w", what.name, ownNamespaces())
		}
	}
	return nil
}

// networks are the modes of networks that the driver takes.
func networks() []string {
	if os.Geteuid() != 0 || ownNamespaces() != nil {
		return nil
	}
	return []string{"host", "group"}
}
