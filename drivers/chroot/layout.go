package chroot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// DefaultEnv returns the directories of the host that a root has unless the client's chroot_env is set.
func DefaultEnv() map[string]string {
	out := map[string]string{}
	for _, dir := range []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"} {
		out[dir] = dir
	}
	return out
}

// The directories of a task in its root.
const (
	sharedDir  = "/alloc"
	logsDir    = "/alloc/logs"
	localDir   = "/local"
	secretsDir = "/secrets"
)

// ownDirs are targets that would hide what the task has of its own.
var ownDirs = []string{"/", sharedDir, logsDir, localDir, secretsDir, "/private", "/tmp", "/dev", "/proc", "/sys"}

// CheckEnv returns an error if a root cannot have one of the targets of a chroot_env.
func CheckEnv(env map[string]string) error {
	for _, source := range slices.Sorted(maps.Keys(env)) {
		target := filepath.Clean(env[source])
		switch {
		case !filepath.IsAbs(source) || !filepath.IsAbs(target):
			return fmt.Errorf("chroot_env: %q = %q: both must be absolute paths", source, env[source])
		case slices.Contains(ownDirs, target) || inKernel(target):
			return fmt.Errorf("chroot_env: %q = %q: a task has its own %s", source, env[source], target)
		}
	}
	return nil
}

// inKernel reports whether a path is in a directory that the kernel fills.
func inKernel(path string) bool {
	return safefs.Within(path, "/dev") || safefs.Within(path, "/proc") || safefs.Within(path, "/sys")
}

// layout is what a root consists of.
type layout struct {
	cfg       *drivers.TaskConfig
	agentDirs []string // directories of the agent, without links
	binds     []sandbox.Bind
	links     []sandbox.Link
	hide      []string // directories of the agent in those of binds
}

// source is an entry of chroot_env that exists.
type source struct {
	target string
	path   string // without links
	linked bool   // the entry names a link, or passes through one
}

// host adds the directories of the host.
func (l *layout) host(env map[string]string) error {
	var list []source
	for name, target := range env {
		s, err := l.source(filepath.Clean(name), filepath.Clean(target))
		if err != nil {
			return fmt.Errorf("chroot_env: %s: %w", name, err)
		}
		if s != nil {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b source) int { return strings.Compare(a.target, b.target) })
	for _, s := range list {
		if to := s.linkTo(list); to != "" {
			l.links = append(l.links, sandbox.Link{Name: s.target, Target: to})
			continue
		}
		l.binds = append(l.binds, sandbox.Bind{Source: sandbox.Path{Name: s.path}, Target: s.target, ReadOnly: true, HostFiles: true})
		for _, dir := range l.agentDirs {
			if safefs.Within(dir, s.path) {
				l.hide = append(l.hide, dir)
			}
		}
	}
	return nil
}

// source resolves an entry. It returns nil for an entry that is skipped: the source does not exist, is neither a file
// nor a directory, or is in a directory of the agent. It follows only links that no task can have made.
func (l *layout) source(name, target string) (*source, error) {
	path, links, err := sandbox.RealPath(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		for _, dir := range l.cfg.Writable {
			if safefs.Within(link, filepath.Clean(dir)) {
				return nil, fmt.Errorf("it passes through the link %s in a volume, where tasks can create links", link)
			}
		}
	}
	if slices.ContainsFunc(l.agentDirs, func(dir string) bool { return safefs.Within(path, dir) }) {
		return nil, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil, nil
	}
	return &source{target: target, path: path, linked: len(links) > 0}, nil
}

// linkTo returns the path in the root that another entry has for the file of a linked one, or "".
func (s *source) linkTo(list []source) string {
	if !s.linked {
		return ""
	}
	for _, other := range list {
		if !other.linked && safefs.Within(s.path, other.path) {
			if to := filepath.Join(other.target, strings.TrimPrefix(s.path, other.path)); to != s.target && !safefs.Within(to, s.target) {
				return to
			}
		}
	}
	return ""
}

// task adds the task's own directories, its volumes and the client's files.
func (l *layout) task() error {
	logs := cmp.Or(l.cfg.LogDir, filepath.Join(l.cfg.SharedDir, "logs")) // with the logs of other tasks
	for _, bind := range []struct {
		dir, target string
		readOnly    bool // the supervisor writes there
	}{{l.cfg.SharedDir, sharedDir, false}, {logs, logsDir, true}, {l.cfg.SecretsDir, secretsDir, false}} {
		at, err := process.InAlloc(l.cfg, bind.dir)
		if err != nil {
			return err
		}
		l.binds = append(l.binds, sandbox.Bind{Source: at, Target: bind.target, ReadOnly: bind.readOnly})
	}
	mounts := slices.Clone(l.cfg.Mounts)
	slices.SortStableFunc(mounts, func(a, b drivers.Mount) int { return strings.Compare(a.TaskPath, b.TaskPath) })
	for _, m := range mounts {
		b, err := l.volume(m)
		if err != nil {
			return fmt.Errorf("volume at destination %q: %w", m.TaskPath, err)
		}
		l.binds = append(l.binds, b)
	}
	for _, f := range l.cfg.Files {
		target, _, err := sandbox.RealPath(f.Target) // the bind covers the target of a link
		if err != nil {
			return fmt.Errorf("mount a file over %s: on this node: %w", f.Target, err)
		}
		l.binds = append(l.binds, sandbox.Bind{Source: sandbox.Path{Name: f.Name, Beneath: l.cfg.AllocDir}, Target: target, ReadOnly: true})
	}
	return nil
}

func (l *layout) volume(m drivers.Mount) (sandbox.Bind, error) {
	b := sandbox.Bind{Source: sandbox.Path{Name: filepath.Clean(m.HostPath)}, Target: l.resolve(filepath.Clean(m.TaskPath)),
		ReadOnly: m.ReadOnly}
	switch m.Propagation {
	case "":
	case drivers.PropagateToTask:
		b.Propagation = sandbox.PropagateIn
	case drivers.PropagateBoth:
		b.Propagation = sandbox.PropagateBoth
	default:
		return b, fmt.Errorf("the driver can't mount with propagation_mode = %q", m.Propagation)
	}
	switch {
	case m.SELinuxLabel != "":
		return b, fmt.Errorf("the driver can't set selinux_label = %q: remove it", m.SELinuxLabel)
	case !filepath.IsAbs(b.Target) || slices.Contains(ownDirs, b.Target) || inKernel(b.Target):
		return b, fmt.Errorf("a task has its own %s", b.Target)
	}
	for _, dir := range l.agentDirs {
		if !safefs.Within(dir, b.Source.Name) {
			continue
		}
		if b.Propagation == sandbox.PropagateBoth {
			return b, errors.New("a volume around directories of the agent can't have propagation_mode = \"bidirectional\"")
		}
		l.hide = append(l.hide, dir)
	}
	return b, nil
}

// resolve replaces a link of the root at the beginning of a path.
func (l *layout) resolve(path string) string {
	for _, link := range l.links {
		if safefs.Within(path, link.Name) {
			return filepath.Join(link.Target, strings.TrimPrefix(path, link.Name))
		}
	}
	return path
}

// checkHidden returns an error if a bind of the host would hide files that templates or artifacts of the task
// have created in its directory.
func (l *layout) checkHidden() error {
	root, err := safefs.Open(l.cfg.AllocDir)
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(l.cfg.TaskDir)
	for _, b := range l.binds {
		if !b.HostFiles {
			continue
		}
		dir, err := root.Sub(filepath.Join(name, b.Target))
		if err != nil {
			continue // it does not exist, or the sandbox reports it
		}
		names, err := dir.Names()
		dir.Close()
		if err == nil && len(names) > 0 && !l.isMountPoint(filepath.Join(b.Target, names[0])) {
			return fmt.Errorf("the task's directory has %s, which %s of the host would hide: write the file below ${NOMAD_TASK_DIR}",
				filepath.Join(b.Target, names[0]), b.Source.Name)
		}
	}
	return nil
}

// isMountPoint reports whether a path was created for a bind or a link.
func (l *layout) isMountPoint(path string) bool {
	return slices.ContainsFunc(l.binds, func(b sandbox.Bind) bool { return safefs.Within(b.Target, path) }) ||
		slices.ContainsFunc(l.links, func(k sandbox.Link) bool { return safefs.Within(k.Name, path) })
}
