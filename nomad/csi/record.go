package csi

// Empty reports whether the plugin has neither an instance nor a job.
func (p *Plugin) Empty() bool {
	return len(p.Controllers)+len(p.Nodes)+len(p.ControllerJobs)+len(p.NodeJobs) == 0
}
