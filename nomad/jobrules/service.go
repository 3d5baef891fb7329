package jobrules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// Address modes of services and checks.
const (
	addressAuto      = "auto"
	addressHost      = "host"
	addressDriver    = "driver"
	addressAlloc     = "alloc"
	addressAllocIPv6 = "alloc_ipv6"
)

// variable matches a reference that the client resolves.
var variable = pattern.Lazy(`\$\{[^}]*\}`)

// maxWeight is the maximum weight of a service, that of a DNS record.
const maxWeight = 65535

// canonicalizeServices sets the defaults of services. task is the name of their task, or "" for those of the group.
func canonicalizeServices(list []*nomad.Service, j *nomad.Job, group, task string) {
	base := j.Name + "-" + group
	owner := "group" // the name of the task in the names of the group's services, as in Nomad 2.0
	if task != "" {
		base, owner = base+"-"+task, task
	}
	names := strings.NewReplacer("${JOB}", j.Name, "${TASKGROUP}", group, "${TASK}", owner, "${BASE}", j.Name+"-"+group+"-"+owner)
	for _, s := range list {
		orEmpty(&s.Name, base)
		s.Name = untrusted.Shorten(names.Replace(s.Name), maxBoundedName) // Validate rejects the shortened name
		orEmpty(&s.Provider, nomad.ServiceProviderConsul)
		s.Namespace = ServiceNamespace(s, j)
		orEmpty(&s.AddressMode, addressAuto)
		orEmpty(&s.OnUpdate, nomad.OnUpdateRequireHealthy)
		for _, c := range s.Checks {
			orEmpty(&c.Name, fmt.Sprintf("service: %q check", s.Name))
			orEmpty(&c.OnUpdate, s.OnUpdate)
			if lower := strings.ToLower(c.Type); slices.Contains(checkTypes, lower) {
				c.Type = lower
			}
		}
	}
}

// ServiceNamespace returns the namespace in which a service is registered: that of its job, or that of Consul.
func ServiceNamespace(s *nomad.Service, j *nomad.Job) string {
	if s.Provider == nomad.ServiceProviderConsul {
		return "default"
	}
	return j.Namespace
}

// serviceRules checks the services of one group. The labels are those of its networks and those of its tasks.
type serviceRules struct {
	tg   *nomad.TaskGroup
	seen map[[3]string]bool // name, task and port
}

func validateServices(tg *nomad.TaskGroup, f *faults) {
	r := serviceRules{tg: tg, seen: map[[3]string]bool{}}
	for _, s := range tg.Services {
		r.service(f.in("service", s.Name), s, nil)
	}
	for _, t := range tg.Tasks {
		for _, s := range t.Services {
			r.service(f.in("task", t.Name).in("service", s.Name), s, t)
		}
	}
}

// service checks a service of a task, or of the group if t is nil.
func (r *serviceRules) service(f *faults, s *nomad.Service, t *nomad.Task) {
	provider(f, s)
	serviceName(f, s)
	key := [3]string{s.Name, "group", s.PortLabel}
	if t != nil {
		key[1] = t.Name
	}
	if r.seen[key] {
		f.add("duplicate service with the port %q: change the name or the port of one", s.PortLabel)
	}
	r.seen[key] = true
	r.address(f, s, t)
	consulFields(f, s)
	onUpdate(f, s.OnUpdate)
	if w := s.Weights; w != nil && (w.Passing < 0 || w.Passing > maxWeight || w.Warning < 0 || w.Warning > maxWeight) {
		f.add("weights are %d and %d: each must be 0 to %d", w.Passing, w.Warning, maxWeight)
	}
	declared(f, s)
	r.task(f, s.TaskName, t)
	r.checks(f, s, t)
}

// provider checks the catalog of a service. Both catalogs have the same rules: whether the servers accept services of
// Consul is not a property of the job.
func provider(f *faults, s *nomad.Service) {
	switch s.Provider {
	case nomad.ServiceProviderNomad, nomad.ServiceProviderConsul:
	default:
		f.add("unknown provider %q: set provider = \"nomad\" or \"consul\"", s.Provider)
	}
	if d := s.DeclaredProvider; d != "" && (d != nomad.ServiceProviderConsul || s.Provider != nomad.ServiceProviderNomad) {
		f.add("DeclaredProvider is %q, but only servers set it: remove it", d)
	}
}

// onUpdate checks what an update needs of the checks of a service, or of one check.
func onUpdate(f *faults, value string) {
	switch value {
	case nomad.OnUpdateRequireHealthy, nomad.OnUpdateIgnoreWarnings, nomad.OnUpdateIgnore:
	default:
		f.add("on_update is %q: use require_healthy, ignore_warnings or ignore", value)
	}
}

// address checks the address mode and the port of a service.
func (r *serviceRules) address(f *faults, s *nomad.Service, t *nomad.Task) {
	switch s.AddressMode {
	case addressAuto, addressHost:
	case addressDriver:
		if t == nil {
			f.add("address_mode is \"driver\", but a group has no driver: move the service into a task, or use auto, host or alloc")
		}
	case addressAlloc, addressAllocIPv6:
		if t != nil {
			f.add("address_mode is %q, which only services of a group can have: move the service into the group, or use auto, host or driver",
				s.AddressMode)
		}
	default:
		f.add("address_mode is %q: use auto, host, driver, alloc or alloc_ipv6", s.AddressMode)
	}
	if s.Address != "" && s.AddressMode != addressAuto {
		f.add("address is set and address_mode is %q: remove one of them", s.AddressMode)
	}
	if s.PortLabel != "" {
		r.port(f, s.PortLabel, t, t == nil || s.AddressMode == addressDriver)
	}
}

// port checks a port of a service or check: a label of a network, or a number where these are allowed.
func (r *serviceRules) port(f *faults, port string, t *nomad.Task, numbers bool) {
	if strings.Contains(port, "${") {
		return // the client resolves it
	}
	if n, err := strconv.Atoi(port); err == nil {
		switch {
		case !numbers:
			f.add("port is the number %s: in a task, use the label of a port in a network block, or address_mode = \"driver\" of the service", port)
		case n < 1 || n > 65535:
			f.add("port is %s: it must be 1 to 65535, or the label of a port", port)
		}
		return
	}
	if !r.hasPort(port, t) {
		f.add("unknown port %q: add port %q to a network block of the group, or use one of its labels", port, port)
	}
}

// hasPort reports whether a network of the group or of the task has the label. Services of the group may use the
// labels of all tasks.
func (r *serviceRules) hasPort(label string, t *nomad.Task) bool {
	networks := []nomad.Networks{r.tg.Networks}
	for _, of := range r.tg.Tasks {
		if (t == nil || t == of) && of.Resources != nil {
			networks = append(networks, of.Resources.Networks)
		}
	}
	for _, list := range networks {
		for _, n := range list {
			for _, ports := range [][]nomad.Port{n.ReservedPorts, n.DynamicPorts} {
				for _, p := range ports {
					if p.Label == label {
						return true
					}
				}
			}
		}
	}
	return false
}

// task checks the task that a service or check names.
func (r *serviceRules) task(f *faults, name string, t *nomad.Task) {
	switch {
	case name == "":
	case t != nil && name != t.Name:
		f.add("task is %q, but the service belongs to the task %q: remove task", name, t.Name)
	case r.tg.Task(name) == nil:
		f.add("unknown task %q: use the name of a task of the group", name)
	}
}
