package mesh

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// maxFaults is the maximum number of errors of a job.
const maxFaults = 100

// maxShown is the maximum number of bytes of a text of the caller in an error.
const maxShown = 128

// fixedName matches the name of a service whose ports and tasks the servers name after it.
var fixedName = pattern.Lazy(`^[A-Za-z0-9_-]{1,100}$`)

// faults collects errors. Each begins with the place.
type faults struct {
	place string
	list  *[]error
}

// add adds an error, with shortened texts of the caller.
func (f faults) add(format string, args ...any) {
	if len(*f.list) >= maxFaults {
		return
	}
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = untrusted.Shorten(s, maxShown)
		}
	}
	*f.list = append(*f.list, errors.New(f.place+": "+fmt.Sprintf(format, args...)))
}

// Validate returns the errors of the connect blocks of a canonical job, before or after Inject. Only services of Consul count.
func Validate(job *nomad.Job) []error {
	var list []error
	for _, tg := range job.TaskGroups {
		f := faults{jobrules.Place(job.ID, tg.Name, ""), &list}
		validateGroup(f, tg)
		for _, t := range tg.Tasks {
			for _, s := range t.Services {
				if Uses(s) {
					f.add("service %q cannot have \"connect\" block, only services defined in a \"group\" block can", s.Name)
				}
			}
			validateKind(f, tg, t)
		}
	}
	return list
}

func validateGroup(f faults, tg *nomad.TaskGroup) {
	binds, transparent, sidecars := map[string]string{}, false, 0
	for _, s := range tg.Services {
		if !Uses(s) {
			continue
		}
		r := rules{faults{f.place + fmt.Sprintf(", service %q", untrusted.Shorten(s.Name, maxShown)), f.list}, tg, s}
		r.service()
		if sidecar := s.Connect.SidecarService; sidecar != nil {
			sidecars++
			r.binds(binds)
			transparent = transparent || sidecar.Proxy != nil && sidecar.Proxy.TransparentProxy != nil
		}
	}
	if transparent && sidecars > 1 {
		f.add("transparent_proxy needs the only connect block of its group, but the group has %d: remove one", sidecars)
	}
}

// validateKind checks that the role of a task is that of a service of the group.
func validateKind(f faults, tg *nomad.TaskGroup, t *nomad.Task) {
	if t.Kind == "" {
		return
	}
	role, service := connect.ParseKind(string(t.Kind))
	for _, s := range tg.Services {
		if s.Name == service && Uses(s) && roleOf(s) == role {
			return
		}
	}
	f.add("kind of task %q is %q, but no service of the group has such a connect block: remove it", t.Name, string(t.Kind))
}

// roleOf returns the role of the task that a service has in the mesh.
func roleOf(s *nomad.Service) string {
	switch {
	case s.Connect.Native:
		return connect.RoleNative
	case s.Connect.SidecarService != nil:
		return connect.RoleProxy
	}
	return s.Connect.Gateway.Role()
}

// rules checks one service of the mesh.
type rules struct {
	faults
	tg *nomad.TaskGroup
	s  *nomad.Service
}

func (r rules) service() {
	c, kinds := r.s.Connect, 0
	for _, is := range []bool{c.Native, c.SidecarService != nil, c.Gateway != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		r.add("Consul Connect must be exclusively native, make use of a sidecar, or represent a Gateway")
		return
	}
	if c.Native {
		r.native()
		return
	}
	if !fixedName().MatchString(r.s.Name) {
		r.add("the name of a service with a proxy must have 1 to 100 letters, digits, - and _, and no references")
	}
	if c.Gateway != nil {
		r.network("gateway", nomad.NetworkModeHost)
		r.gateway(c.Gateway)
		return
	}
	r.network("sidecar", "")
	for _, of := range [][2]string{{"service", r.s.Name}, {"group", r.tg.Name}} {
		if strings.ContainsFunc(of[1], unicode.IsUpper) {
			r.add("connect sidecar: the name of the %s %q must not contain uppercase characters", of[0], of[1])
		}
	}
	if p := c.SidecarService.Proxy; p != nil {
		r.proxy(p)
	}
	r.exposed()
}

// native checks a service whose task uses the mesh without a proxy.
func (r rules) native() {
	if r.s.PortLabel == "" {
		r.add("connect native: missing port: set it")
	}
	if nativeTask(r.tg, r.s) == nil {
		r.add("connect native: the group has several tasks: set task to the name of the one that implements the service")
	}
}

// network checks the network of a group with a proxy. also is a mode that is valid besides those with a namespace.
func (r rules) network(what, also string) {
	if n := len(r.tg.Networks); n != 1 {
		r.add("connect %s: the group %q has %d networks: it must have exactly one", what, r.tg.Name, n)
		return
	}
	mode := r.tg.Networks[0].Mode
	if mode == nomad.NetworkModeBridge || strings.HasPrefix(mode, nomad.NetworkModeCNI) || also != "" && mode == also {
		return
	}
	valid := `"bridge" or "cni/*"`
	if also != "" {
		valid = fmt.Sprintf("%q, ", also) + valid
	}
	r.add("connect %s: invalid network mode for Consul Connect: group %q uses network mode %q; must be "+valid, what, r.tg.Name, mode)
}
