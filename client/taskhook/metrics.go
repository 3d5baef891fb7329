package taskhook

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

// Metrics configures the metrics of tasks. The zero value publishes the counters of tasks,
// without the label alloc_id, and no resource usage.
type Metrics struct {
	// Allocs publishes the resource usage of each task and adds the label alloc_id.
	Allocs bool
	// Meta adds the metadata of the task as labels: the keys in MetaKeys, or all if it is
	// empty. It requires Allocs.
	Meta     bool
	MetaKeys []string
	// NoHooks disables the metrics of hooks.
	NoHooks bool
}

// reserved holds the labels that metadata cannot set: the other labels of these metrics and
// those that Prometheus uses.
var reserved = map[string]bool{
	"job": true, "task_group": true, "alloc_id": true, "task": true, "namespace": true, "host": true,
	"parent_id": true, "dispatch_id": true, "periodic_id": true, "instance": true, "quantile": true, "le": true,
}

// Labels returns the labels of every metric of a task. The slice has no spare capacity, because
// it is shared.
func (m Metrics) Labels(a *nomad.Allocation, t *nomad.Task) []metrics.Label {
	job := a.JobID
	if a.Job != nil && a.Job.Name != "" {
		job = a.Job.Name
	}
	labels := []metrics.Label{{Name: "job", Value: job}, {Name: "task_group", Value: a.TaskGroup}}
	if m.Allocs {
		labels = append(labels, metrics.Label{Name: "alloc_id", Value: a.ID})
	}
	labels = append(labels, metrics.Label{Name: "task", Value: t.Name}, metrics.Label{Name: "namespace", Value: a.Namespace})
	labels = append(labels, childLabels(a.JobID)...)
	if m.Allocs && m.Meta {
		labels = append(labels, m.metaLabels(a, t)...)
	}
	return labels[:len(labels):len(labels)]
}

// childLabels returns the labels of a dispatched or periodic job.
func childLabels(jobID string) []metrics.Label {
	if parent, id, ok := nomad.DispatchedID(jobID); ok {
		return []metrics.Label{{Name: "parent_id", Value: parent}, {Name: "dispatch_id", Value: id}}
	}
	if parent, id, ok := nomad.PeriodicID(jobID); ok {
		return []metrics.Label{{Name: "parent_id", Value: parent}, {Name: "periodic_id", Value: id}}
	}
	return nil
}

// metaLabels returns the labels of the task's metadata, sorted by name. Keys that map to the
// same name give one label.
func (m Metrics) metaLabels(a *nomad.Allocation, t *nomad.Task) []metrics.Label {
	meta := combinedMeta(a, t)
	keys := m.MetaKeys
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(meta))
	}
	byName := map[string]string{}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		value, ok := meta[key]
		name := labelName(key)
		if ok && !reserved[name] && !strings.HasPrefix(name, "__") {
			byName[name] = value
		}
	}
	var out []metrics.Label
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, metrics.Label{Name: name, Value: byName[name]})
	}
	return out
}

// combinedMeta merges the metadata of the job, its group and the task; the task has the highest
// precedence.
func combinedMeta(a *nomad.Allocation, t *nomad.Task) map[string]string {
	out := map[string]string{}
	if a.Job != nil {
		maps.Copy(out, a.Job.Meta)
		if tg := a.Job.TaskGroup(a.TaskGroup); tg != nil {
			maps.Copy(out, tg.Meta)
		}
	}
	maps.Copy(out, t.Meta)
	return out
}

// labelName converts a key to a label name of letters, digits and underscores that does not
// start with a digit.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, key)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
