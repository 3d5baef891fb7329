package exec2

import (
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/level"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
)

// facts are what this node puts on a task that asks for nothing.
func (s settings) facts() level.Facts {
	root := os.Geteuid() == 0
	f := level.Facts{OwnUser: root, OwnIPC: root, OwnProcesses: root, OwnMounts: root, Limits: root && groupsUsable() == nil}
	f.LandlockABI, _ = landlock.ABI() // 0 without
	f.Filter = seccomp.Available() == nil
	f.DefaultFilter = f.Filter && s.asStrictAsDefault()
	return f
}

// asStrictAsDefault says whether what tasks get by default refuses what the built-in
// profile does.
func (s settings) asStrictAsDefault() bool {
	p, err := s.profile(s.SeccompProfile)
	if err != nil {
		return false
	}
	weaker, err := p.Weaker()
	return err == nil && len(weaker) == 0
}

// seccompAttributes name the profile of tasks, and those that a task may name.
func (s settings) seccompAttributes() map[string]string {
	return map[string]string{
		"driver.exec2.seccomp.profile": s.SeccompProfile,
		"driver.exec2.seccomp.tasks":   strings.Join(s.AllowTaskSeccomp, ","),
	}
}
