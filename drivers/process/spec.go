package process

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Logs returns the supervisor's log configuration. The allocation's directory belongs to root;
// tasks may have changed everything below it.
func Logs(cfg *drivers.TaskConfig) (proc.Logs, error) {
	if cfg.Stdout != "" || cfg.Stderr != "" { // somebody else collects the output
		return proc.Logs{Disabled: true, Stdout: cfg.Stdout, Stderr: cfg.Stderr}, nil
	}
	if cfg.Log.Disabled || cfg.LogDir == "" {
		return proc.Logs{Disabled: true}, nil
	}
	dir, err := filepath.Rel(cfg.AllocDir, cfg.LogDir)
	if err != nil || !filepath.IsLocal(dir) {
		return proc.Logs{}, fmt.Errorf("log directory %s is not inside the allocation's directory", cfg.LogDir)
	}
	return proc.Logs{Root: cfg.AllocDir, Dir: dir, Name: cfg.Name,
		MaxFiles: max(cfg.Log.MaxFiles, 1), MaxBytes: int64(max(cfg.Log.MaxFileSizeMB, 1)) << 20}, nil
}

// GroupName returns the task's control group.
func GroupName(cfg *drivers.TaskConfig) proc.Group {
	parent, name := drivers.TaskGroup(cfg.CgroupParent, cfg.AllocID, cfg.Name, cfg.Limits.Cores)
	return proc.Group{Parent: parent, Name: name}
}

// Environ lists env as "NAME=value", sorted.
func Environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
