package kinds

import (
	"slices"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// HostsController reports whether a task of a driver can be a CSI controller plugin: it runs on the files of the node, or the
// directory of its socket can be mounted.
func HostsController(c drivers.Capabilities) bool { return c.Mounts || onHost(c) }

// HostsNodePlugin reports whether a task of a driver can be a CSI plugin that mounts volumes on the node: it runs on the files
// of the node, or its mounts can appear there.
func HostsNodePlugin(c drivers.Capabilities) bool {
	return onHost(c) || c.Mounts && slices.Contains(c.Propagations, drivers.PropagateBoth)
}

// onHost reports whether the tasks of a driver are processes on the files of the node. A virtual machine is not.
func onHost(c drivers.Capabilities) bool {
	return c.FSIsolation == drivers.FSIsolationNone && !c.OwnEnvironment
}
