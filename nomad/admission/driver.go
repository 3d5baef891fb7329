package admission

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/mesh"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// validate checks a canonical job: the rules of jobs, and the rules of the drivers that need
// no node.
func validate(job *nomad.Job, names *kinds.Names) error {
	list := parts(jobrules.Validate(job))
	eachKind(job, names, func(k *drivers.Kind, p Place) {
		wrong := append(missing(k, names, p), noPlugin(k, p)...)
		var invalid error
		if k.CheckTask != nil {
			invalid = k.CheckTask(p.Task.User, p.Task.Config)
		}
		if k.CheckPorts != nil && invalid == nil {
			invalid = k.CheckPorts(p.Task.Config, p.network())
		}
		wrong = append(wrong, parts(invalid)...)
		for _, err := range wrong {
			list = append(list, fmt.Errorf("%s: %w", p, err))
		}
	})
	list = append(list, parts(isolated(nil, job, names))...)
	return errors.Join(append(list, unoffered(job, names)...)...)
}

// Check returns the errors and warnings of a job that can be found without server state.
// It modifies the job: it sets the defaults of the HTTP API.
func Check(job *nomad.Job, table kinds.Table) (errs, warns []string) {
	jobrules.Canonicalize(job)
	names := table.Names(nil)
	err := validate(job, names)
	if more := mesh.Validate(job); len(more) > 0 {
		err = errors.Join(append(more, err)...)
	}
	if err == nil {
		err = errors.Join(builtinConfigs(job, names)...)
	}
	return Faults(err), warnings(job, names)
}

// warnings returns the warnings about a canonical job: valid, but probably a mistake.
func warnings(job *nomad.Job, names *kinds.Names) []string {
	out := jobrules.Warnings(job)
	eachKind(job, names, func(k *drivers.Kind, p Place) {
		hasDNS := slices.ContainsFunc(p.Group.Networks, func(n *nomad.NetworkResource) bool { return n.DNS != nil })
		if hasDNS && hostFiles(k.Capabilities) {
			out = append(out, fmt.Sprintf("%s: the dns block of the group has no effect: tasks of driver %q use the resolv.conf of the node",
				p, p.Task.Driver))
		}
		if text := pluginWarning(k, p); text != "" {
			out = append(out, text)
		}
		if k.WarnTask == nil {
			return
		}
		for _, text := range k.WarnTask(p.Task.User, p.Task.Config) {
			out = append(out, fmt.Sprintf("%s: %s", p, text))
		}
	})
	return append(out, absent(job, names)...)
}

// maxAbsent limits the warnings about drivers that no node has.
const maxAbsent = 16

// absent returns a warning for each driver that no node has.
func absent(job *nomad.Job, names *kinds.Names) (out []string) {
	seen := map[string]bool{}
	for _, p := range Places(job) {
		if d := p.Task.Driver; d != "" && !seen[d] && len(out) < maxAbsent && names.Absent(d) {
			seen[d] = true
			out = append(out, fmt.Sprintf("%s: no node has the driver %q", p, d))
		}
	}
	return out
}

// Warnings returns the warnings about a job, including those that depend on the configuration of the servers.
func (v *View) Warnings(job *nomad.Job) []string {
	out := append(warnings(job, v.names), isolationWarnings(v.snap.Namespace(nil, job.Namespace), job, v.names)...)
	out = append(out, chosenByNode(v.cfg.Region, job)...)
	out = append(out, withoutVaultIdentity(v.cfg.Vault, job)...)
	_, region := v.snap.SchedulerConfig(nil)
	if v.snap.NodePool(nil, job.NodePool).MemoryOversubscription(region) {
		return out
	}
	for _, p := range Places(job) {
		if p.Task.Resources.MemoryMaxMB != 0 {
			out = append(out, fmt.Sprintf("%s: memory_max has no effect: "+
				"memory oversubscription is not enabled in the scheduler configuration", p))
		}
	}
	return out
}

// Place is a task of a job.
type Place struct {
	Job   *nomad.Job
	Group *nomad.TaskGroup
	Task  *nomad.Task
}

// String returns the place as a prefix of messages.
func (p Place) String() string {
	return jobrules.Place(p.Job.ID, p.Group.Name, p.Task.Name)
}

// network returns the network that the task asks for.
func (p Place) network() *drivers.NetworkAsk {
	out := &drivers.NetworkAsk{Group: p.Group.NetworkMode() != nomad.NetworkModeHost}
	for _, from := range []struct {
		networks nomad.Networks
		own      bool
	}{{p.Group.Networks, false}, {p.Task.Resources.Networks, true}} {
		for _, n := range from.networks {
			for _, port := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				out.Ports = append(out.Ports, drivers.Port{Label: port.Label, Value: port.Value, To: port.To, Own: from.own})
			}
		}
	}
	return out
}

// Places returns the tasks of a job.
func Places(job *nomad.Job) (out []Place) {
	for _, tg := range job.TaskGroups {
		for _, t := range tg.Tasks {
			out = append(out, Place{job, tg, t})
		}
	}
	return out
}

// eachKind calls f for the tasks with a driver of a known kind.
func eachKind(job *nomad.Job, names *kinds.Names, f func(*drivers.Kind, Place)) {
	for _, p := range Places(job) {
		if k := names.Kind(p.Task.Driver); k != nil {
			f(k, p)
		}
	}
}

// groupNetwork is in Capabilities.Networks if tasks can join the network of their group.
const groupNetwork = "group"

// ability is something that a driver can do for a task.
type ability struct {
	asked bool
	what  string
	has   func(drivers.Capabilities) bool
}

// missing returns what the task asks for and no instance of its driver's kind can do. For other
// drivers, the nodes check their capabilities.
func missing(k *drivers.Kind, names *kinds.Names, p Place) (out []error) {
	mode := p.Group.NetworkMode()
	mounts := func(c drivers.Capabilities) bool { return c.Mounts }
	asks := slices.Concat([]ability{
		{len(p.Task.VolumeMounts) > 0, "mount volumes", mounts},
		{p.Group.RunsScripts(p.Task), "run script checks in its tasks", func(c drivers.Capabilities) bool { return c.Exec }},
		{mode != nomad.NetworkModeHost, fmt.Sprintf("join the group's network of mode %q", mode),
			func(c drivers.Capabilities) bool { return slices.Contains(c.Networks, groupNetwork) }},
		{slices.ContainsFunc(p.Group.Networks, func(n *nomad.NetworkResource) bool { return n.Hostname != "" }),
			"have the hostname of the group's network", func(c drivers.Capabilities) bool { return c.Hostname || c.MustCreateNetwork }},
		{slices.ContainsFunc(p.Group.Networks, func(n *nomad.NetworkResource) bool { return n.DNS != nil }),
			"use the dns block of the group's network", func(c drivers.Capabilities) bool { return c.Mounts || hostFiles(c) }},
	}, mountAbilities(p.Task))
	for _, a := range asks {
		if !a.asked || a.has(k.Capabilities) {
			continue
		}
		mend := "use another driver"
		if other := names.Example(a.has); other != "" {
			mend += ", such as " + other
		}
		out = append(out, fmt.Errorf("driver %q cannot %s: %s", p.Task.Driver, a.what, mend))
	}
	return out
}

// hostFiles reports whether the tasks of a driver have the files of the node, so that a dns block has no effect.
func hostFiles(c drivers.Capabilities) bool {
	return !c.Mounts && c.FSIsolation == drivers.FSIsolationNone
}

// mountAbilities returns what the volume_mount blocks of a task ask for. A mode with a reference is checked
// on the node.
func mountAbilities(t *nomad.Task) (out []ability) {
	for _, m := range t.VolumeMounts {
		if mode := m.PropagationMode; mode == nomad.VolumeMountHostToTask || mode == nomad.VolumeMountBidirectional {
			out = append(out, ability{true, fmt.Sprintf("mount volumes with propagation_mode = %q", mode),
				func(c drivers.Capabilities) bool { return slices.Contains(c.Propagations, mode) }})
		}
		if m.SELinuxLabel != "" {
			out = append(out, ability{true, "set selinux_label of mounts", func(c drivers.Capabilities) bool { return c.SELinux }})
		}
	}
	return out
}

// parts returns the errors that err joins, at every level, or err itself. It is empty for nil.
func parts(err error) (out []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		out = append(out, parts(e)...)
	}
	return out
}

// Faults returns the messages of a joined error.
func Faults(err error) (out []string) {
	var list *Invalid
	if errors.As(err, &list) {
		err = errors.Join(list.Faults...)
	}
	for _, e := range parts(err) {
		out = append(out, e.Error())
	}
	return out
}
