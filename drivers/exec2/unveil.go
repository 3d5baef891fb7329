package exec2

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// presets are unveiled by default if they exist. The sandbox checks that when it opens them.
var presets = map[string][]string{
	"rx": {"/bin", "/usr/bin", "/usr/local/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec",
		"/usr/local/lib", "/usr/local/lib64"},
	"rw": {"/dev/null", "/dev/full", "/dev/stdin"},
	"w":  {"/dev/log", "/dev/stdout", "/dev/stderr"}, // no r: a task that reads its log pipes takes output from its logs
	"r": {"/etc/ld.so.conf", "/etc/ld.so.cache", "/etc/ld.so.conf.d",
		"/dev/zero", "/dev/fd", "/dev/urandom", "/usr/share/locale", "/usr/share/zoneinfo",
		"/usr/share/common-licenses", "/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap",
		"/proc/sys/vm/overcommit_memory",
		"/etc/hosts", "/hostname", "/etc/services", "/etc/protocols", "/etc/resolv.conf",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/sys/etc/security/cacerts", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"},
}

// grants lists the unveiled paths: narrow grants only, since a wider one would make them
// ineffective.
func (s *setup) grants() ([]sandbox.Path, error) {
	set, cfg, t := s.set, s.cfg, s.task
	if len(t.Unveil) > 0 && !set.UnveilByTask {
		return nil, errors.New("task set unveil paths but driver config does not allow this (unveil_by_task)")
	}
	var out []sandbox.Path
	if set.UnveilDefaults {
		own, err := ownDirectories(cfg)
		if err != nil {
			return nil, err
		}
		out = append(own, presetPaths...)
	}
	for _, source := range []struct {
		option string
		list   []config.Unveil
	}{{"unveil_paths of this node's driver config", set.UnveilPaths}, {"unveil", t.Unveil}} {
		for _, u := range source.list {
			base := changeable(cfg, u.Path, set.UnveilPaths, t.Unveil)
			p := under(base, u)
			if err := present(onHost(cfg, p, u)); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", source.option, u, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// ownDirectories returns the directories that the client made for the task.
func ownDirectories(cfg *drivers.TaskConfig) ([]sandbox.Path, error) {
	var out []sandbox.Path
	for _, dir := range []string{cfg.LocalDir, cfg.SharedDir, cfg.SecretsDir, process.TmpDir(cfg)} {
		rel, err := filepath.Rel(cfg.AllocDir, dir)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("task directory %s is not inside the allocation's directory", dir)
		}
		out = append(out, sandbox.Path{Modes: "rwxc", Name: rel, Beneath: cfg.AllocDir})
	}
	return out, nil
}

// presetPaths converts the presets to sandbox paths.
var presetPaths = func() (out []sandbox.Path) {
	for _, modes := range []string{"rx", "rw", "w", "r"} {
		for _, name := range presets[modes] {
			out = append(out, sandbox.Path{Modes: modes, Name: name, Optional: true})
		}
	}
	return out
}()

// changeable returns the uppermost directory above path in which a task may create links: an
// allocation's directory, a volume (by its destination or its host path), or a directory that is
// unveiled with c. No link below it is followed, or a task could have the next start unveil any
// path. Elsewhere the sandbox follows links that root alone can have created.
func changeable(cfg *drivers.TaskConfig, path string, lists ...[]config.Unveil) string {
	if safefs.Within(path, cfg.AllocDir) {
		return cfg.AllocDir
	}
	if m := mountOf(cfg, path); m != nil {
		return filepath.Clean(m.TaskPath)
	}
	base := ""
	shorter := func(dir string) {
		if safefs.Within(path, dir) && (base == "" || len(dir) < len(base)) {
			base = dir
		}
	}
	if others := filepath.Dir(cfg.AllocDir); path != others {
		shorter(others)
	}
	for _, m := range cfg.Mounts {
		shorter(filepath.Clean(m.HostPath))
	}
	for _, dir := range cfg.Writable {
		shorter(filepath.Clean(dir))
	}
	for _, u := range slices.Concat(lists...) {
		if strings.Contains(u.Modes, "c") && path != u.Path {
			shorter(u.Path)
		}
	}
	return base
}

// under returns the sandbox path of an unveil entry, relative to base if there is one.
func under(base string, u config.Unveil) sandbox.Path {
	if base == "" {
		return sandbox.Path{Modes: u.Modes, Name: u.Path}
	}
	return sandbox.Path{Modes: u.Modes, Beneath: base, Name: relative(base, u.Path)}
}

// relative returns path relative to base.
func relative(base, path string) string {
	return cmp.Or(strings.TrimPrefix(path[len(base):], "/"), ".")
}

// mountOf returns the volume that contains a path, or nil.
func mountOf(cfg *drivers.TaskConfig, path string) *drivers.Mount {
	for i, m := range cfg.Mounts {
		if safefs.Within(path, filepath.Clean(m.TaskPath)) {
			return &cfg.Mounts[i]
		}
	}
	return nil
}

// onHost returns the path of p on the host, before the task's mounts exist.
func onHost(cfg *drivers.TaskConfig, p sandbox.Path, u config.Unveil) sandbox.Path {
	if m := mountOf(cfg, u.Path); m != nil {
		return sandbox.Path{Modes: u.Modes, Beneath: m.HostPath, Name: relative(filepath.Clean(m.TaskPath), u.Path)}
	}
	return p
}

// present returns an error if a path cannot be granted. The sandbox opens it again.
func present(p sandbox.Path) error {
	if p.Beneath == "" {
		fd, err := unix.Open(p.Name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return onNode(err)
		}
		return unix.Close(fd)
	}
	root, err := unix.Open(p.Beneath, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return onNode(err)
	}
	defer unix.Close(root)
	fd, err := safefs.OpenBeneath(root, p.Name, unix.O_PATH)
	if err == unix.ELOOP {
		return fmt.Errorf("it passes through a symbolic link in %s, where tasks can create links", p.Beneath)
	}
	if err != nil {
		return onNode(err)
	}
	return unix.Close(fd)
}

func onNode(err error) error { return fmt.Errorf("on this node: %w", err) }

// workDir returns the task's initial directory: its own, or a granted one.
func (s *setup) workDir(paths []sandbox.Path) (string, error) {
	dir := s.task.WorkDir
	if dir == "" || dir == s.cfg.TaskDir {
		return s.cfg.TaskDir, nil
	}
	for _, p := range paths {
		if safefs.Within(dir, filepath.Join(p.Beneath, p.Name)) {
			return dir, nil
		}
	}
	if mountOf(s.cfg, dir) != nil {
		return dir, nil
	}
	return "", fmt.Errorf("work_dir: %q is not in a path granted to the task: unveil it, or use one below ${NOMAD_TASK_DIR}", dir)
}
