package exec2

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var _ drivers.Isolator = (*Driver)(nil)

// Isolates implements drivers.Isolator.
func (d *Driver) Isolates(user string, block map[string]any) (drivers.Isolation, error) {
	set := d.Current()
	if _, err := check(set.Plugin, groupsUsable()); err != nil {
		return drivers.Isolation{}, err
	}
	i := set.isolation(config.TaskProfile(block))
	if i.User > drivers.UserRoot && inRootGroup(user) {
		user = "root"
	}
	var unveiled []string
	for _, u := range set.UnveilPaths {
		unveiled = append(unveiled, u.String())
	}
	i = config.WithUnveiled(config.WithUser(i, user), unveiled)
	return config.WithUnveiled(i, config.TaskUnveil(block)), nil
}

// isolation returns what isolates a task without a user and without unveiled paths, under a seccomp
// profile, "" for the default of the node.
func (s settings) isolation(profile string) drivers.Isolation {
	own := process.OwnNamespaces() == nil
	i := drivers.Isolation{PID: own, IPC: own, Mounts: own, Limits: groupsUsable() == nil, User: drivers.UserShared,
		Capabilities: drivers.CapabilitiesNone, NoPrivileges: true, Devices: true}
	if os.Geteuid() == 0 { // only root can give each task another user
		i.User = drivers.UserOwn
	}
	abi, _ := landlock.ABI() // 0 if not available
	if abi >= landlock.ABIFiles {
		i.Files = drivers.FilesOwn
	}
	i.Sockets = abi >= landlock.ABIScopes
	i.Seccomp = seccomp.Available() == nil && s.asStrictAsDefault(cmp.Or(profile, s.SeccompProfile))
	return i
}

// inRootGroup reports whether a user of this node, which the driver's config must allow, is root or
// in root's group. It is true for a user that cannot be looked up: no task can start with it.
func inRootGroup(user string) bool {
	if user == "" || hostuser.IsDynamic(user) {
		return false
	}
	acc, err := hostuser.Lookup(user)
	return err != nil || acc.UID == 0 || acc.GID == 0 || slices.Contains(acc.Groups, 0)
}

// asStrictAsDefault reports whether a profile refuses everything that the built-in one does.
func (s settings) asStrictAsDefault(name string) bool {
	p, err := s.profile(name)
	if err != nil {
		return false
	}
	weaker, err := p.Weaker()
	return err == nil && len(weaker) == 0
}

// attributes returns the attributes of the sandbox of a healthy instance.
func (s settings) attributes(name string) map[string]string {
	abi, _ := landlock.ABI()
	return map[string]string{
		drivers.Attribute(name, drivers.LandlockKey): strconv.Itoa(abi),
		drivers.Attribute(name, "seccomp.profile"):   s.SeccompProfile,
		drivers.Attribute(name, "seccomp.tasks"):     strings.Join(s.AllowTaskSeccomp, ","),
	}
}
