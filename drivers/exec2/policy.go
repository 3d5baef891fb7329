package exec2

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// notFound is the status of a task whose program is not there or not executable.
const notFound = 127

// presets are unveiled by default, where they exist (compat/exec2.md).
var presets = map[string][]string{
	"rx": {"/bin", "/usr/bin", "/usr/local/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec",
		"/usr/local/lib", "/usr/local/lib64"},
	"rw": {"/dev/null", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr"},
	"w":  {"/dev/log"},
	"r": {"/etc/ld.so.conf", "/etc/ld.so.cache", "/etc/ld.so.conf.d",
		"/dev/zero", "/dev/fd", "/dev/urandom", "/usr/share/locale", "/usr/share/zoneinfo",
		"/usr/share/common-licenses", "/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap",
		"/proc/sys/vm/overcommit_memory",
		"/etc/hosts", "/hostname", "/etc/services", "/etc/protocols", "/etc/resolv.conf",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/sys/etc/security/cacerts", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"},
}

// account is who the task runs as; the zero Account keeps the agent's user, which
// only an agent that is not root does.
func (s settings) account(cfg *drivers.TaskConfig) (process.Account, error) {
	self := os.Geteuid()
	if self != 0 {
		if cfg.User == "" || strings.HasPrefix(cfg.User, "nomad-") {
			return process.Account{}, nil // allow_unprivileged has been seen to
		}
		acc, err := process.LookupUser(cfg.User)
		if err == nil && int(acc.UID) != self {
			err = fmt.Errorf("running as user %s needs an agent that is root", acc.Name)
		}
		return process.Account{}, err
	}
	if cfg.User == "" {
		return process.Account{}, errors.New("the task has no user, and the client gave it none of its own")
	}
	acc, err := process.LookupUser(cfg.User)
	if err != nil {
		return acc, err
	}
	if acc.UID == 0 && !s.allowRoot {
		return acc, fmt.Errorf("user %s is root, which this node's driver config does not allow (allow_root)", acc.Name)
	}
	return acc, nil
}

// policy says what the task may do.
func (s settings) policy(cfg *drivers.TaskConfig, o options, acc process.Account) (*sandbox.Policy, error) {
	paths, err := s.paths(cfg, o)
	if err != nil {
		return nil, err
	}
	filter, err := seccomp.Default()
	if err != nil {
		return nil, err
	}
	p := &sandbox.Policy{
		Argv: append([]string{o.command}, o.args...), Env: environ(cfg, acc), Dir: cfg.TaskDir,
		MissingExit: notFound, OOMScoreAdj: max(o.oomScoreAdj, cfg.OOMScoreAdj, 0),
		Files: &sandbox.Files{Paths: paths, MinABI: s.minABI},
		// A core dump would carry secrets out of the sandbox.
		Rlimits: []sandbox.Rlimit{{Resource: unix.RLIMIT_CORE}},
		Seccomp: sandbox.SeccompDefault, Filter: filter,
	}
	if acc.Name == "" {
		return p, nil
	}
	p.PrivateIPC = true
	p.User = &sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups}
	return p, reachable(cfg.TaskDir, acc)
}

// paths lists what is unveiled: narrow grants only, since a wider one voids them.
func (s settings) paths(cfg *drivers.TaskConfig, o options) ([]sandbox.Path, error) {
	var out []sandbox.Path
	if s.unveilDefaults {
		for _, dir := range []string{cfg.LocalDir, cfg.SharedDir, cfg.SecretsDir, tmpDir(cfg)} {
			rel, err := filepath.Rel(cfg.AllocDir, dir)
			if err != nil || !filepath.IsLocal(rel) {
				return nil, fmt.Errorf("task directory %s is not inside the allocation's directory", dir)
			}
			out = append(out, sandbox.Path{Modes: "rwxc", Name: rel, Beneath: cfg.AllocDir})
		}
		for _, modes := range []string{"rx", "rw", "w", "r"} {
			for _, name := range presets[modes] {
				if _, err := os.Stat(name); err == nil {
					out = append(out, sandbox.Path{Modes: modes, Name: name})
				}
			}
		}
	}
	return slices.Concat(out, s.unveilPaths, o.unveil), nil
}

func tmpDir(cfg *drivers.TaskConfig) string { return filepath.Join(cfg.TaskDir, "tmp") }

// environ is the task's environment: what the client made, without what would
// steer the loader or a desktop, and with what belongs to its user.
func environ(cfg *drivers.TaskConfig, acc process.Account) sandbox.Environment {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	for k, v := range cfg.Env {
		if !strings.HasPrefix(k, "LD_") && !slices.Contains([]string{"LS_COLORS", "XAUTHORITY", "DISPLAY", "COLORTERM", "MAIL"}, k) {
			env[k] = v
		}
	}
	env["TMPDIR"] = tmpDir(cfg)
	if acc.Name != "" {
		env["USER"], env["HOME"] = acc.Name, acc.Home
	}
	return process.Environ(env)
}

// reachable says in an error which directory above the task's own keeps its user
// out: the kernel would only say "permission denied", for each file.
func reachable(dir string, acc process.Account) error {
	if acc.UID == 0 {
		return nil
	}
	for d := dir; d != "/" && d != "."; d = filepath.Dir(d) {
		var st unix.Stat_t
		if err := unix.Stat(d, &st); err != nil {
			return fmt.Errorf("look at task directory: %w", &os.PathError{Op: "stat", Path: d, Err: err})
		}
		if !searchable(&st, acc) {
			return fmt.Errorf("directory %s (mode %04o) cannot be entered by uid %d: the task would not reach its own files", d, st.Mode&0o7777, acc.UID)
		}
	}
	return nil
}

func searchable(st *unix.Stat_t, acc process.Account) bool {
	switch {
	case st.Uid == acc.UID:
		return st.Mode&0o100 != 0
	case st.Gid == acc.GID || slices.Contains(acc.Groups, st.Gid):
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
