package exec2

import (
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/level"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// facts returns the facts of this node about a task without options.
func (s settings) facts() level.Facts {
	own := process.OwnNamespaces() == nil
	f := level.Facts{OwnUser: os.Geteuid() == 0, OwnIPC: own, OwnProcesses: own, OwnMounts: own, Limits: groupsUsable() == nil}
	f.LandlockABI, _ = landlock.ABI() // 0 if not available
	f.Filter = seccomp.Available() == nil
	f.DefaultFilter = f.Filter && s.asStrictAsDefault()
	return f
}

// asStrictAsDefault reports whether the default profile of tasks refuses everything that the
// built-in one does.
func (s settings) asStrictAsDefault() bool {
	p, err := s.profile(s.SeccompProfile)
	if err != nil {
		return false
	}
	weaker, err := p.Weaker()
	return err == nil && len(weaker) == 0
}

// seccompAttributes returns the attributes of the default profile and of those that tasks may use.
func (s settings) seccompAttributes(name string) map[string]string {
	return map[string]string{
		drivers.Attribute(name, "seccomp.profile"): s.SeccompProfile,
		drivers.Attribute(name, "seccomp.tasks"):   strings.Join(s.AllowTaskSeccomp, ","),
	}
}
