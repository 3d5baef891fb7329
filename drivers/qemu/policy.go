package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
)

// needed are the files of the node that an emulator uses, if they exist: libraries and modules, firmware, and the
// configuration of the resolver.
var needed = map[string][]string{
	"rx": {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"},
	"r": {"/usr/share/qemu", "/usr/share/seabios", "/usr/share/vgabios", "/usr/share/ipxe", "/usr/share/ovmf", "/usr/share/OVMF",
		"/usr/share/edk2", "/usr/share/edk2-ovmf", "/usr/share/AAVMF", "/usr/share/qemu-efi-aarch64", "/usr/share/openbios",
		"/usr/share/slof", "/usr/share/opensbi", "/usr/share/u-boot", "/usr/local/share/qemu", "/etc/qemu",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
		"/etc/host.conf", "/dev/zero", "/dev/urandom", "/proc/sys/vm/overcommit_memory"},
	"rw": {"/dev/null"},
}

// policy returns the policy of the emulator. The directories in own are hidden from it.
func (m *machine) policy(e process.Environment, agentDirs []string) (*sandbox.Policy, error) {
	user, err := m.account()
	if err != nil {
		return nil, err
	}
	if err := m.prepareTmp(user); err != nil {
		return nil, err
	}
	p := &sandbox.Policy{Argv: m.argv, Env: e.Apply(m.cfg.Env), Dir: m.cfg.TaskDir, User: user, Rlimits: noCore,
		Files: &sandbox.Files{MinABI: landlock.ABIFiles}}
	if p.Files.Paths, err = m.grants(); err != nil {
		return nil, err
	}
	if err := process.Isolate(p, m.cfg); err != nil {
		return nil, err
	}
	if err := process.HideAgent(p.Mounts, agentDirs); err != nil {
		return nil, err
	}
	if err := process.AddDevices(p, m.cfg); err != nil {
		return nil, err
	}
	profile, err := seccomp.Standard()
	if err != nil {
		return nil, err
	}
	return p, process.SetFilter(p, profile)
}

// account returns the user of the emulator, which is never root.
func (m *machine) account() (*sandbox.User, error) {
	if m.cfg.User == "" {
		return nil, errors.New("user: the task has no user, and the client assigned none")
	}
	acc, err := hostuser.Lookup(m.cfg.User)
	if err != nil {
		return nil, fmt.Errorf("user: %w", err)
	}
	if acc.UID == 0 || acc.GID == 0 || slices.Contains(acc.Groups, 0) {
		return nil, fmt.Errorf("user: %s is root or in root's group: the emulator does not run as root", acc.Name)
	}
	return &sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups}, nil
}

// prepareTmp gives the directory of the sockets to the emulator, without the sockets of an earlier start.
func (m *machine) prepareTmp(u *sandbox.User) error {
	root, err := safefs.Open(m.cfg.AllocDir)
	if err != nil {
		return err
	}
	defer root.Close()
	rel, err := filepath.Rel(m.cfg.AllocDir, process.TmpDir(m.cfg))
	if err != nil {
		return err
	}
	dir, err := root.MakeAll(rel, 0o700, int(u.UID), int(u.GID))
	if err != nil {
		return fmt.Errorf("make the temporary directory: %w", err)
	}
	defer dir.Close()
	for _, name := range []string{monitorName, agentName} {
		if err := unix.Unlinkat(dir.FD(), name, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove the socket %s of an earlier start: %w", name, err)
		}
	}
	if err := dir.Chown(int(u.UID), int(u.GID)); err != nil {
		return err
	}
	return dir.Chmod(0o700)
}

// grants lists what the emulator can access.
func (m *machine) grants() ([]sandbox.Path, error) {
	out := []sandbox.Path{{Modes: "rx", Name: m.binary}}
	for modes, names := range needed {
		for _, name := range names {
			out = append(out, sandbox.Path{Modes: modes, Name: name, Optional: true})
		}
	}
	for modes, dirs := range map[string][]string{"rwc": {m.cfg.LocalDir, m.cfg.SharedDir, process.TmpDir(m.cfg)}, "r": {m.cfg.SecretsDir}} {
		for _, dir := range dirs {
			path, err := process.InAlloc(m.cfg, dir)
			if err != nil {
				return nil, err
			}
			path.Modes = modes
			out = append(out, path)
		}
	}
	image := sandbox.Path{Name: m.imageFile()}
	if inside, err := process.InAlloc(m.cfg, image.Name); err == nil {
		image = inside
	} else if _, err := os.Lstat(image.Name); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	image.Modes = "rw"
	out = append(out, image)
	if m.accelerator == "kvm" {
		if !existing("/dev/kvm") {
			return nil, errors.New("accelerator: this node has no /dev/kvm")
		}
		out = append(out, sandbox.Path{Modes: "rw", Name: "/dev/kvm", Device: true})
	}
	return out, nil
}
