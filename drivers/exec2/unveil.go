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
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// presets are unveiled by default, where they exist (compat/exec2.md): the sandbox looks, when
// it opens them.
var presets = map[string][]string{
	"rx": {"/bin", "/usr/bin", "/usr/local/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec",
		"/usr/local/lib", "/usr/local/lib64"},
	"rw": {"/dev/null", "/dev/full", "/dev/stdin"},
	"w":  {"/dev/log", "/dev/stdout", "/dev/stderr"}, // a task that reads its log pipes takes from its logs
	"r": {"/etc/ld.so.conf", "/etc/ld.so.cache", "/etc/ld.so.conf.d",
		"/dev/zero", "/dev/fd", "/dev/urandom", "/usr/share/locale", "/usr/share/zoneinfo",
		"/usr/share/common-licenses", "/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap",
		"/proc/sys/vm/overcommit_memory",
		"/etc/hosts", "/hostname", "/etc/services", "/etc/protocols", "/etc/resolv.conf",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/sys/etc/security/cacerts", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"},
}

// grants lists what is unveiled: narrow grants only, since a wider one voids them.
func grants(set config.Plugin, cfg *drivers.TaskConfig, t config.Task) ([]sandbox.Path, error) {
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

// ownDirectories are those that the client made for the task.
func ownDirectories(cfg *drivers.TaskConfig) ([]sandbox.Path, error) {
	var out []sandbox.Path
	for _, dir := range []string{cfg.LocalDir, cfg.SharedDir, cfg.SecretsDir, tmpDir(cfg)} {
		rel, err := filepath.Rel(cfg.AllocDir, dir)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("task directory %s is not inside the allocation's directory", dir)
		}
		out = append(out, sandbox.Path{Modes: "rwxc", Name: rel, Beneath: cfg.AllocDir})
	}
	return out, nil
}

// presetPaths are the presets as the sandbox takes them.
var presetPaths = func() (out []sandbox.Path) {
	for _, modes := range []string{"rx", "rw", "w", "r"} {
		for _, name := range presets[modes] {
			out = append(out, sandbox.Path{Modes: modes, Name: name, Optional: true})
		}
	}
	return out
}()

// changeable returns the uppermost directory above path in which a task may make links: an
// allocation's, a volume, by its destination or its path on the host, or one that is unveiled
// with c. No link is followed from there, or a task could have the next start unveil any path.
// Elsewhere the sandbox follows links that root alone can have made.
func changeable(cfg *drivers.TaskConfig, path string, lists ...[]config.Unveil) string {
	if below(path, cfg.AllocDir) {
		return cfg.AllocDir
	}
	if m := mountOf(cfg, path); m != nil {
		return filepath.Clean(m.TaskPath)
	}
	base := ""
	shorter := func(dir string) {
		if below(path, dir) && (base == "" || len(dir) < len(base)) {
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

// under is what is unveiled, reached from base if there is one.
func under(base string, u config.Unveil) sandbox.Path {
	if base == "" {
		return sandbox.Path{Modes: u.Modes, Name: u.Path}
	}
	return sandbox.Path{Modes: u.Modes, Beneath: base, Name: relative(base, u.Path)}
}

// relative is the way from base to a path below it.
func relative(base, path string) string {
	return cmp.Or(strings.TrimPrefix(path[len(base):], "/"), ".")
}

// mountOf is the volume that a path lies in, nil when in none.
func mountOf(cfg *drivers.TaskConfig, path string) *drivers.Mount {
	for i, m := range cfg.Mounts {
		if below(path, filepath.Clean(m.TaskPath)) {
			return &cfg.Mounts[i]
		}
	}
	return nil
}

// onHost is where p can be found before the task's mounts are there.
func onHost(cfg *drivers.TaskConfig, p sandbox.Path, u config.Unveil) sandbox.Path {
	if m := mountOf(cfg, u.Path); m != nil {
		return sandbox.Path{Modes: u.Modes, Beneath: m.HostPath, Name: relative(filepath.Clean(m.TaskPath), u.Path)}
	}
	return p
}

// below says whether path is dir or lies in it, going by their names.
func below(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// present says why a path can't be granted; the sandbox opens it again, by itself.
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
	fd, err := unix.Openat2(root, p.Name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.ELOOP {
		return fmt.Errorf("it leads over a symbolic link in %s, where a task can make them", p.Beneath)
	}
	if err != nil {
		return onNode(err)
	}
	return unix.Close(fd)
}

func onNode(err error) error { return fmt.Errorf("on this node: %w", err) }

func tmpDir(cfg *drivers.TaskConfig) string { return filepath.Join(cfg.TaskDir, "tmp") }

// workDir is the directory the task begins in: its own, or one that is granted.
func workDir(cfg *drivers.TaskConfig, t config.Task, paths []sandbox.Path) (string, error) {
	if t.WorkDir == "" || t.WorkDir == cfg.TaskDir {
		return cfg.TaskDir, nil
	}
	for _, p := range paths {
		if below(t.WorkDir, filepath.Join(p.Beneath, p.Name)) {
			return t.WorkDir, nil
		}
	}
	if mountOf(cfg, t.WorkDir) != nil {
		return t.WorkDir, nil
	}
	return "", fmt.Errorf("work_dir: %q lies in no path that is granted to the task: unveil it, or use one below ${NOMAD_TASK_DIR}", t.WorkDir)
}
