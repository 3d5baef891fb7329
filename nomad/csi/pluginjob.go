package csi

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Part is one part of a plugin.
type Part struct {
	Plugin string
	Kind   nomad.CSIPluginType // PluginController or PluginNode
}

// PartsOf returns the parts of plugins that the tasks of a group run, each once and in the order of the tasks.
func PartsOf(tg *nomad.TaskGroup) (parts []Part) {
	for _, t := range tg.Tasks {
		if t == nil || t.CSIPluginConfig == nil {
			continue
		}
		for _, kind := range Kinds() {
			part := Part{t.CSIPluginConfig.ID, kind}
			if runs := t.CSIPluginConfig.Type; (runs == kind || runs == PluginMonolith) && !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// Expected returns how many instances of each part of a plugin the job should run: the counts of its groups. A system job has no
// counts: those of its allocations in the summary, which may be nil, are used.
func Expected(j *nomad.Job, sum *nomad.JobSummary) map[Part]int {
	var out map[Part]int // few jobs run a plugin
	for _, tg := range j.TaskGroups {
		if tg == nil {
			continue
		}
		n := tg.Count
		if j.Type == nomad.JobTypeSystem || j.Type == nomad.JobTypeSysBatch {
			n = 0
			if sum != nil {
				of := sum.Summary[tg.Name]
				n = of.Running + of.Queued + of.Starting
			}
		}
		for _, part := range PartsOf(tg) {
			if out == nil {
				out = map[Part]int{}
			}
			out[part] += n
		}
	}
	return out
}

// RunsPlugins reports whether the group of an allocation, which may be nil, runs a plugin.
func RunsPlugins(a *nomad.Allocation) bool { return len(partsOf(a)) > 0 }

// RunsPart reports whether the allocation runs a part of a plugin on the node, and has not ended.
func RunsPart(a *nomad.Allocation, node string, part Part) bool {
	return slices.Contains(partsOf(a), part) && a.NodeID == node && !a.TerminalStatus()
}

func partsOf(a *nomad.Allocation) []Part {
	if a == nil || a.Job == nil {
		return nil
	}
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	return PartsOf(tg)
}
