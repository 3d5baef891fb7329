package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// sidecarOOMScore makes the kernel prefer a sidecar to its task when their control group has no
// memory left.
const sidecarOOMScore = 1000

// SidecarPolicy returns the policy of a sidecar. It takes user, namespaces, limits and the minimum
// Landlock ABI from p, which a driver makes for the task. The program, the paths and the hidden
// directories are those of s. No denial is logged, since it would be reported as the task's. The
// caller adds the seccomp filter.
func SidecarPolicy(p *sandbox.Policy, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*sandbox.Policy, error) {
	if err := checkSidecar(cfg, s); err != nil {
		return nil, err
	}
	out := *p
	out.Argv, out.Env, out.Dir, out.DirAs = s.Args, Environ(s.Env), filepath.Clean(s.Dir), sandbox.DirAsUser
	out.ByDescriptor, out.Search, out.MissingExit = true, nil, 0
	out.OOMScoreAdj = sidecarOOMScore
	out.KeepCapabilities, out.KeepPrivileges = false, false
	out.LogDenials, out.LogCalls = false, false
	out.Files = sidecarFiles(p.Files, s)
	out.Rlimits = sidecarLimits(p.Rlimits, s.Limits)
	if p.Mounts != nil {
		m := *p.Mounts
		for _, dir := range s.Hide {
			m.Hide = append(m.Hide[:len(m.Hide):len(m.Hide)], filepath.Clean(dir))
		}
		out.Mounts = &m
	} else if s.Unconfined && len(s.Hide) > 0 {
		return nil, errors.New("a sidecar without Landlock and without a mount namespace cannot be kept from " + s.Hide[0])
	}
	if out.OwnUsers {
		out.KeepLinks()
	}
	return &out, nil
}

// checkSidecar refuses what a caller must not ask for.
func checkSidecar(cfg *drivers.TaskConfig, s *drivers.Sidecar) error {
	switch {
	case s.Program == nil || len(s.Args) == 0:
		return errors.New("a sidecar needs a program and its name")
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("working directory %q of sidecar %s is not absolute", s.Dir, s.Args[0])
	}
	if _, err := InAlloc(cfg, s.Dir); err != nil {
		return fmt.Errorf("working directory of sidecar %s: %w", s.Args[0], err)
	}
	return nil
}

// sidecarFiles returns the paths of s, and its TCP ports: none, or those of the task.
func sidecarFiles(task *sandbox.Files, s *drivers.Sidecar) *sandbox.Files {
	if s.Unconfined {
		return nil
	}
	f := &sandbox.Files{MinABI: landlock.ABIFiles}
	if task != nil {
		f.TCP, f.MinABI = task.TCP, max(f.MinABI, task.MinABI)
	}
	if s.NoTCP {
		f.TCP = &landlock.Ports{}
	}
	for _, p := range s.Paths {
		f.Paths = append(f.Paths, sandbox.Path{Modes: p.Modes, Name: p.Name, Beneath: p.Beneath, Optional: p.Optional})
	}
	return f
}

// sidecarLimits returns the limits of the task with those of the sidecar. There are no core dumps.
func sidecarLimits(task []sandbox.Rlimit, l drivers.SidecarLimits) []sandbox.Rlimit {
	out := []sandbox.Rlimit{{Resource: unix.RLIMIT_CORE}}
	size := sandbox.Rlimit{Resource: unix.RLIMIT_FSIZE, Soft: l.FileSize, Hard: l.FileSize}
	for _, r := range task {
		switch {
		case r.Resource == unix.RLIMIT_CORE:
		case r.Resource == unix.RLIMIT_FSIZE && l.FileSize != 0:
			size.Soft, size.Hard = min(size.Soft, r.Soft), min(size.Hard, r.Hard)
		default:
			out = append(out, r)
		}
	}
	if l.FileSize != 0 {
		out = append(out, size)
	}
	return out
}

// sidecarStdio returns descriptors 0 to 2 of s, with null for missing ones. The caller closes null.
func sidecarStdio(s *drivers.Sidecar) (stdio [3]*os.File, null *os.File, err error) {
	if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return stdio, nil, err
	}
	for i, f := range s.Stdio {
		if stdio[i] = f; f == nil {
			stdio[i] = null
		}
	}
	return stdio, null, nil
}
