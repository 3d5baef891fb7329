package jobrules

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// Inert is a part of a job that is accepted without effect.
type Inert struct {
	Place  string // of the group or task
	Name   string // of the part, such as "mbits of network"
	Reason string // why, and what to use instead
}

func (i Inert) String() string { return i.Place + ": " + i.Name + " " + i.Reason }

// inert is a kind of part that is accepted without effect. The name of each row is in the documentation, in
// jobs.md. That page is tested against these tables.
type inert[T any] struct {
	name   string
	reason string // the end of a sentence that begins with the name
	used   func(T, *nomad.Job) bool
}

// The parts that are accepted without effect, by their place.
var (
	inertInGroups = []inert[*nomad.TaskGroup]{
		{"update", "has no effect on batch and sysbatch jobs", func(tg *nomad.TaskGroup, j *nomad.Job) bool {
			return tg.Update != nil && !deploys(j)
		}},
		{"canary", "has no effect while max_parallel is 0: updates have no deployment", func(tg *nomad.TaskGroup, j *nomad.Job) bool {
			return tg.Update != nil && tg.Update.Canary > 0 && tg.Update.MaxParallel == 0 && deploys(j)
		}},
		{"attempts of reschedule", "have no effect while unlimited is true", func(tg *nomad.TaskGroup, _ *nomad.Job) bool {
			return tg.ReschedulePolicy != nil && tg.ReschedulePolicy.Unlimited && tg.ReschedulePolicy.Attempts > 0
		}},
		{"max_client_disconnect", useDisconnect, func(tg *nomad.TaskGroup, _ *nomad.Job) bool { return tg.MaxClientDisconnect != nil }},
		{"stop_after_client_disconnect", useDisconnect, func(tg *nomad.TaskGroup, _ *nomad.Job) bool {
			return tg.StopAfterClientDisconnect != nil
		}},
		{"prevent_reschedule_on_lost", useDisconnect, func(tg *nomad.TaskGroup, _ *nomad.Job) bool { return tg.PreventRescheduleOnLost }},
	}
	inertInNetworks = []inert[*nomad.NetworkResource]{
		{"mbits of network", "has no effect", func(n *nomad.NetworkResource, _ *nomad.Job) bool { return n.MBits != 0 }},
		{"device of network", "has no effect: use host_network of a port", func(n *nomad.NetworkResource, _ *nomad.Job) bool {
			return n.Device != ""
		}},
		{"cidr of network", "has no effect: use host_network of a port", func(n *nomad.NetworkResource, _ *nomad.Job) bool { return n.CIDR != "" }},
		{"ip of network", "has no effect: use host_network of a port", func(n *nomad.NetworkResource, _ *nomad.Job) bool { return n.IP != "" }},
	}
	inertInServices = []inert[*nomad.Service]{
		{"identity", needsConsul, func(s *nomad.Service, _ *nomad.Job) bool { return registeredNatively(s) && s.Identity != nil }},
		{"cluster", needsConsul, func(s *nomad.Service, _ *nomad.Job) bool { return registeredNatively(s) && otherCluster(s.Cluster) }},
		{"kind", needsConsul, func(s *nomad.Service, _ *nomad.Job) bool { return registeredNatively(s) && s.Kind != "" }},
	}
	inertInTasks = []inert[*nomad.Task]{
		{"iops of resources", "has no effect", func(t *nomad.Task, _ *nomad.Job) bool { return t.Resources.IOPS != 0 }},
		{"disk of resources", "has no effect: use ephemeral_disk of the group", func(t *nomad.Task, _ *nomad.Job) bool {
			return t.Resources.DiskMB != 0
		}},
		{"affinity of numa", "has no effect without cores", func(t *nomad.Task, _ *nomad.Job) bool {
			return t.Resources.NUMA.Binds() && t.Resources.Cores == 0
		}},
		{"devices of numa", "have no effect without cores and an affinity", func(t *nomad.Task, _ *nomad.Job) bool {
			n := t.Resources.NUMA
			return n != nil && len(n.Devices) > 0 && (t.Resources.Cores == 0 || !n.Binds())
		}},
		{"scaling", "has no effect: the servers store the policies of tasks, but no autoscaler of this version changes cpu and memory",
			func(t *nomad.Task, _ *nomad.Job) bool { return len(t.ScalingPolicies) > 0 }},
	}
)

// Reasons of several rows.
const (
	useDisconnect = "has no effect: use a disconnect block"
	needsConsul   = "has no effect without Consul"
)

// registeredNatively reports whether a service is not in Consul.
func registeredNatively(s *nomad.Service) bool { return s.Provider == nomad.ServiceProviderNomad }

// deploys reports whether updates of the job have deployments.
func deploys(j *nomad.Job) bool {
	return j.Type == nomad.JobTypeService || j.Type == nomad.JobTypeSystem
}

// WithoutEffect returns the parts of a canonical job that are accepted without effect, maxFaults at most.
func WithoutEffect(j *nomad.Job) []Inert {
	var out []Inert
	for _, tg := range j.TaskGroups {
		at := Place(j.ID, tg.Name, "")
		out = append(out, inertParts(inertInGroups, tg, j, at)...)
		out = inertNetworks(out, tg.Networks, j, at)
		out = appendForwards(out, tg, at)
		out = inertServices(out, tg.Services, j, at)
		for _, t := range tg.Tasks {
			at := Place(j.ID, tg.Name, t.Name)
			out = inertServices(out, t.Services, j, at)
			out = append(out, inertParts(inertInTasks, t, j, at)...)
			out = inertNetworks(out, t.Resources.Networks, j, at)
		}
	}
	return out[:min(len(out), maxFaults)]
}

func inertNetworks(out []Inert, list nomad.Networks, j *nomad.Job, at string) []Inert {
	for _, n := range list {
		out = append(out, inertParts(inertInNetworks, n, j, at)...)
	}
	return out
}

func inertServices(out []Inert, list []*nomad.Service, j *nomad.Job, at string) []Inert {
	for _, s := range list {
		out = append(out, inertParts(inertInServices, s, j, at+", service \""+s.Name+"\"")...)
	}
	return out
}

// inertParts returns the parts of v that the rows describe.
func inertParts[T any](rows []inert[T], v T, j *nomad.Job, at string) (out []Inert) {
	for _, r := range rows {
		if r.used(v, j) {
			out = append(out, Inert{Place: at, Name: r.name, Reason: r.reason})
		}
	}
	return out
}

// forward is the name of the part that appendForwards returns.
const forward = "to of port"

// appendForwards appends the ports on the network of the node that have another number inside, and that no task publishes
// by itself, as docker does with ports in the config of a task.
func appendForwards(out []Inert, tg *nomad.TaskGroup, at string) []Inert {
	for _, n := range tg.Networks {
		for _, port := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			label := port.Label
			publishes := func(t *nomad.Task) bool { return publishesPort(t.Config, label) }
			if !onHost(n) || port.To <= 0 || port.To == port.Value || slices.ContainsFunc(tg.Tasks, publishes) {
				continue
			}
			out = append(out, Inert{at, forward + " \"" + label + "\"",
				"has no effect on connections: nothing is forwarded on the host's network. NOMAD_PORT_" + label + " is this number, and NOMAD_HOST_PORT_" +
					label + " the port that others reach. Use mode \"bridge\", or ports of a docker task"})
		}
	}
	return out
}

// publishesPort reports whether the config of a task maps the port.
func publishesPort(config map[string]any, label string) bool {
	switch list := config["ports"].(type) {
	case []any:
		return slices.Contains(list, any(label))
	case []string:
		return slices.Contains(list, label)
	}
	return false
}

// InertNames returns the names of all parts that WithoutEffect can return, by place. The place is a word such as task.
func InertNames() map[string][]string {
	return map[string][]string{"group": inertNames(inertInGroups), "network": append(inertNames(inertInNetworks), "to"),
		"service": inertNames(inertInServices), "task": inertNames(inertInTasks)}
}

func inertNames[T any](rows []inert[T]) (out []string) {
	for _, r := range rows {
		name, _, _ := strings.Cut(r.name, " of ")
		out = append(out, name)
	}
	return out
}
