package exec2

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
)

// filter is the task's filter of system calls.
func filter(set config.Plugin, t config.Task) ([]byte, error) {
	if t.SeccompProfile != "" && !slices.Contains(set.AllowTaskSeccomp, t.SeccompProfile) {
		return nil, fmt.Errorf("seccomp_profile: %q is not one that this node's driver config lets tasks name (allow_task_seccomp)", t.SeccompProfile)
	}
	if name := cmp.Or(t.SeccompProfile, set.SeccompProfile); name != config.SeccompDefault {
		return nil, fmt.Errorf("seccomp_profile: this version has none but %q, not %q", config.SeccompDefault, name)
	}
	return seccomp.Default()
}
