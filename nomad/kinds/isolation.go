package kinds

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Isolation returns the most that isolates a task of a kind on any node. It is the zero value for an
// unknown kind, for a kind that does not isolate tasks, and for a CSI plugin that mounts volumes on its node.
func Isolation(k *drivers.Kind, t *nomad.Task) drivers.Isolation {
	if k == nil || k.Isolates == nil || csi.MountsVolumes(t.CSIPluginConfig) {
		return drivers.Isolation{}
	}
	config := t.Config
	if config == nil {
		config = map[string]any{}
	}
	i := k.Isolates(t.User, config)
	if t.Resources != nil && len(t.Resources.Devices) > 0 {
		i.Devices = false
	}
	return i
}

// LevelOn returns the isolation level that a node reports for a driver.
func LevelOn(node *nomad.Node, driver string) drivers.Level {
	if node == nil {
		return drivers.LevelNone
	}
	l, err := drivers.ParseLevel(node.Attributes[drivers.Attribute(driver, drivers.LevelKey)])
	if err != nil { // it reports none, or one that this version does not have
		return drivers.LevelNone
	}
	return l
}

// Required returns the lowest isolation level with which a task may run: that of the task, or the
// minimum that its namespace enforces, whichever is higher. The namespace may be nil.
func Required(ns *nomad.Namespace, t *nomad.Task) drivers.Level {
	l := levelOf(t.Isolation)
	if ns != nil && ns.Isolation != nil && ns.Isolation.Enforce {
		l = max(l, levelOf(ns.Isolation.Minimum))
	}
	return l
}

// levelOf parses a level of a job or a namespace, none if it is empty. Registration refuses unknown
// names; one of a later version counts as the highest level.
func levelOf(name string) drivers.Level {
	if name == "" {
		return drivers.LevelNone
	}
	l, err := drivers.ParseLevel(name)
	if err != nil {
		return drivers.LevelStrict
	}
	return l
}

// Claimed reports whether a token of the task, or of a service of its group, has the claim
// nomad_isolation. The namespace may be nil.
func Claimed(ns *nomad.Namespace, tg *nomad.TaskGroup, t *nomad.Task) bool {
	if ns.ClaimsIsolation(t.Identity) || slices.ContainsFunc(t.Identities, ns.ClaimsIsolation) {
		return true
	}
	service := func(s *nomad.Service) bool { return s.Identity != nil && ns.ClaimsIsolation(s.Identity) }
	return slices.ContainsFunc(tg.Services, service) ||
		slices.ContainsFunc(tg.Tasks, func(t *nomad.Task) bool { return slices.ContainsFunc(t.Services, service) })
}

// Promise returns the isolation levels by task that the client of a node must enforce for a new
// allocation of a group. Tokens claim them. Without a claim it is what is required. With a claim, and
// without a level in the job, it is the most that the node reports and the config of the task
// allows. Tasks of level none are omitted.
func (t Table) Promise(ns *nomad.Namespace, node *nomad.Node, tg *nomad.TaskGroup) map[string]string {
	var out map[string]string
	for _, task := range tg.Tasks {
		l := Required(ns, task)
		if task.Isolation == "" && Claimed(ns, tg, task) {
			l = max(l, min(LevelOn(node, task.Driver), Isolation(t.On(node, task.Driver), task).Level()))
		}
		if l == drivers.LevelNone {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[task.Name] = l.String()
	}
	return out
}
