package csi

import (
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
)

// NewPlugin returns the record of a plugin without instances and jobs.
func NewPlugin(id string) *Plugin {
	return &Plugin{ID: id, Controllers: map[string]*nomad.CSIInfo{}, Nodes: map[string]*nomad.CSIInfo{},
		ControllerJobs: JobDescriptions{}, NodeJobs: JobDescriptions{}}
}

// Kinds are the parts of a plugin. A monolith is both.
func Kinds() []nomad.CSIPluginType { return []nomad.CSIPluginType{PluginController, PluginNode} }

// Instances returns the instances of one part of the plugin, by node ID.
func (p *Plugin) Instances(kind nomad.CSIPluginType) map[string]*nomad.CSIInfo {
	if kind == PluginController {
		return p.Controllers
	}
	return p.Nodes
}

// Jobs returns the jobs of one part of the plugin.
func (p *Plugin) Jobs(kind nomad.CSIPluginType) JobDescriptions {
	if kind == PluginController {
		return p.ControllerJobs
	}
	return p.NodeJobs
}

// WithInstance returns the record after a report of a node about its instance; a nil report means that it has none. It returns
// p itself if nothing changes. The first report of an instance that is not healthy is ignored.
func (p *Plugin) WithInstance(kind nomad.CSIPluginType, node string, info *nomad.CSIInfo) *Plugin {
	have := p.Instances(kind)[node]
	if have == nil && (info == nil || !info.Healthy) || have != nil && reflect.DeepEqual(have, info) {
		return p
	}
	out := p.editable()
	if info == nil {
		delete(out.Instances(kind), node)
		return out.counted()
	}
	out.Instances(kind)[node] = info
	out.Provider, out.Version = info.Provider, info.ProviderVersion
	if kind == PluginController {
		out.ControllerRequired = info.RequiresControllerPlugin
	}
	return out.counted()
}

// WithJob returns the record with a job that runs a part of the plugin, or p itself if nothing changes.
func (p *Plugin) WithJob(kind nomad.CSIPluginType, j JobDescription) *Plugin {
	if has, ok := p.Jobs(kind)[j.Namespace][j.ID]; ok && has == j {
		return p
	}
	out := p.editable()
	jobs := out.Jobs(kind)
	if jobs[j.Namespace] == nil {
		jobs[j.Namespace] = map[string]JobDescription{}
	}
	jobs[j.Namespace][j.ID] = j
	return out.counted()
}

// WithoutJob returns the record without a job, or p itself if nothing changes.
func (p *Plugin) WithoutJob(kind nomad.CSIPluginType, id nomad.NamespacedID) *Plugin {
	if _, ok := p.Jobs(kind)[id.Namespace][id.ID]; !ok {
		return p
	}
	out := p.editable()
	jobs := out.Jobs(kind)
	if delete(jobs[id.Namespace], id.ID); len(jobs[id.Namespace]) == 0 {
		delete(jobs, id.Namespace)
	}
	return out.counted()
}

// Empty reports whether the plugin has neither an instance nor a job.
func (p *Plugin) Empty() bool {
	return len(p.Controllers)+len(p.Nodes)+len(p.ControllerJobs)+len(p.NodeJobs) == 0
}

// Counted returns a copy of the record with maps of its own, and with the counts of its instances and jobs.
func (p *Plugin) Counted() *Plugin { return p.editable().counted() }

// editable returns a copy with maps of its own.
func (p *Plugin) editable() *Plugin {
	out := *p
	out.Controllers, out.Nodes = cloned(p.Controllers), cloned(p.Nodes)
	out.ControllerJobs, out.NodeJobs = p.ControllerJobs.clone(), p.NodeJobs.clone()
	return &out
}

func (d JobDescriptions) clone() JobDescriptions {
	out := JobDescriptions{}
	for ns, jobs := range d {
		out[ns] = cloned(jobs)
	}
	return out
}

// counted computes the counts of a copy from its instances and jobs, and returns it.
func (p *Plugin) counted() *Plugin {
	p.ControllersHealthy, p.ControllersExpected = healthy(p.Controllers), p.ControllerJobs.expected()
	p.NodesHealthy, p.NodesExpected = healthy(p.Nodes), p.NodeJobs.expected()
	return p
}

func healthy(instances map[string]*nomad.CSIInfo) (n int) {
	for _, i := range instances {
		if i != nil && i.Healthy {
			n++
		}
	}
	return n
}

func (d JobDescriptions) expected() (n int) {
	for _, jobs := range d {
		for _, j := range jobs {
			n += j.Expected
		}
	}
	return n
}
