package csi

// Shown returns a copy of the volume with the fields that its plugin determines. p is nil if the plugin does not exist.
func (v *Volume) Shown(p *Plugin) *Volume {
	out := *v
	out.ControllerRequired, out.Schedulable = false, false
	out.ControllersHealthy, out.ControllersExpected, out.NodesHealthy, out.NodesExpected = 0, 0, 0, 0
	if p == nil {
		return &out
	}
	out.Provider, out.ProviderVersion, out.ControllerRequired = p.Provider, p.Version, p.ControllerRequired
	out.ControllersHealthy, out.ControllersExpected = p.ControllersHealthy, p.ControllersExpected
	out.NodesHealthy, out.NodesExpected = p.NodesHealthy, p.NodesExpected
	out.Schedulable = p.Schedulable()
	return &out
}

// Attaches reports whether a controller of the plugin attaches volumes to nodes. It is also true while that is unknown, because
// none of the expected controllers has reported. A call of the controller then fails until one does.
func (p *Plugin) Attaches() bool {
	known := false
	for _, c := range p.Controllers {
		if c == nil || c.ControllerInfo == nil {
			continue
		}
		if known = true; p.ControllerRequired && c.ControllerInfo.SupportsAttachDetach {
			return true
		}
	}
	return !known && (p.ControllerRequired || p.ControllersExpected > 0)
}

// Schedulable reports whether volumes of the plugin can be mounted: it has a healthy node instance, and a healthy controller
// if it needs one.
func (p *Plugin) Schedulable() bool {
	return p != nil && p.NodesHealthy > 0 && (!p.ControllerRequired || p.ControllersHealthy > 0)
}
