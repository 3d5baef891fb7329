package exec2

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// limits returns hard limits: memory up to memory_max, the requested CPU, and a number of
// processes, so that a fork bomb does not affect the host.
func (s *setup) limits() (cgroup.Limits, error) {
	set, t, r := s.set, s.task, s.cfg.Limits
	l := cgroup.Limits{MemoryMax: r.MemoryBytes, CPUShares: r.CPUShares, Cores: r.Cores, Processes: set.PIDsLimit}
	switch {
	case r.MemoryMaxBytes < 0:
		l.MemoryLow, l.MemoryMax = r.MemoryBytes, 0
	case r.MemoryMaxBytes > 0:
		l.MemoryLow, l.MemoryMax = r.MemoryBytes, max(r.MemoryMaxBytes, r.MemoryBytes)
	}
	if r.CPUShares > 0 {
		if r.MHzPerCore == 0 {
			return l, errors.New("cpu: the MHz of this node's cores are unknown: set cpu_total_compute in the client block")
		}
		// 0 would be no limit: use the kernel's minimum.
		l.CPUQuota = max(r.CPUShares*cgroup.CPUPeriod/int64(r.MHzPerCore), 1)
	}
	if t.PIDsLimit > set.PIDsLimitMax {
		return l, fmt.Errorf("pids_limit: %d is above the %d that this node allows (pids_limit_max in its driver config)", t.PIDsLimit,
			set.PIDsLimitMax)
	}
	if t.PIDsLimit > 0 {
		l.Processes = t.PIDsLimit
	}
	return l, nil
}

// rlimits returns the task's limits, which must not exceed the agent's own. Core dumps are off by
// default, since they would carry secrets out of the sandbox.
func rlimits(t config.Task) ([]sandbox.Rlimit, error) {
	out := []sandbox.Rlimit{{Resource: unix.RLIMIT_CORE}}
	var errs []error
	for _, u := range t.Ulimits {
		var own unix.Rlimit
		if err := unix.Getrlimit(u.Resource, &own); err != nil {
			return nil, fmt.Errorf("ulimit: %s: read the agent's own: %w", u.Name, err)
		}
		if u.Hard > own.Max {
			errs = append(errs, fmt.Errorf("ulimit: %s: %s is above the agent's own hard limit of %s", u.Name, amount(u.Hard), amount(own.Max)))
			continue
		}
		r := sandbox.Rlimit{Resource: u.Resource, Soft: u.Soft, Hard: u.Hard}
		if u.Resource == unix.RLIMIT_CORE {
			out[0] = r
			continue
		}
		out = append(out, r)
	}
	return out, errors.Join(errs...)
}

func amount(n uint64) string {
	if n == config.Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
