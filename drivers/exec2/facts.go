package exec2

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/level"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// facts returns the facts of this node about a task without options.
func (s settings) facts() level.Facts {
	own := ownNamespaces() == nil
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

// ownNamespaces returns an error if this agent cannot give tasks their own namespaces. It tries
// once.
func ownNamespaces() error { return tryNamespaces() }

// noProgram does not exist, so that the test process ends after all namespaces were created.
const noProgram = "/nonexistent/nomad-trial"

var tryNamespaces = sync.OnceValue(func() error {
	p := &sandbox.Policy{Argv: []string{noProgram}, MissingExit: notFound, Dir: "/", Seccomp: sandbox.SeccompNone,
		PrivatePID: true, OwnUsers: os.Geteuid() != 0, PrivateIPC: true, Mounts: &sandbox.Mounts{Proc: true}}
	raw, err := sandbox.Encode(p)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	s := &launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Policy: raw, Stdio: [3]*os.File{null, null, null},
		Init: true, Users: p.OwnUsers}
	proc, err := s.Fork()
	if err != nil {
		return err
	}
	defer proc.Close()
	defer proc.Pidfd.Close()
	reason, err := proc.Ready()
	ws, werr := proc.Wait()
	switch {
	case err != nil || werr != nil:
		return errors.Join(err, werr)
	case reason != "":
		return errors.New(reason)
	case ws.ExitStatus() != notFound:
		return fmt.Errorf("the test process ended with wait status %#x", uint32(ws))
	}
	return nil
})
