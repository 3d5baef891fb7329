package exec2

import (
	"fmt"
	"path/filepath"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// hide hides the agent's directories from the task. A path into one cannot be granted. With a
// mount namespace the directories look empty. Without one, a path around one of them cannot be
// granted either, since nothing would hide it.
func hide(p *sandbox.Policy, hidden []string, allocDir string) error {
	dirs, err := process.Existing(hidden)
	if err != nil {
		return err
	}
	for _, path := range p.Files.Paths {
		if path.Optional || path.Beneath == allocDir {
			continue // a default, or in the allocation, without links
		}
		if err := checkGrant(p, path, dirs); err != nil {
			return err
		}
	}
	if p.Mounts == nil {
		return nil
	}
	return process.HideAgent(p.Mounts, hidden)
}

// checkGrant refuses a path that gives the task access to a directory of the agent.
func checkGrant(p *sandbox.Policy, path sandbox.Path, hidden []string) error {
	name := filepath.Join(path.Beneath, path.Name)
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		real = name // the sandbox opens it, or reports the error
	}
	for _, dir := range hidden {
		if safefs.Within(real, dir) || p.Mounts == nil && safefs.Within(dir, real) {
			return fmt.Errorf("unveil: %s leads to the agent's own files in %s", name, dir)
		}
	}
	return nil
}
