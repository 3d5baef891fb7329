package admission

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// noPlugin returns an error for a task that cannot be a CSI plugin with its driver. For drivers that are not built-in, the
// nodes check their capabilities.
func noPlugin(k *drivers.Kind, p Place) []error {
	c := p.Task.CSIPluginConfig
	switch {
	case c == nil:
	case csi.MountsVolumes(c) && !kinds.HostsNodePlugin(k.Capabilities):
		return []error{fmt.Errorf("driver %q cannot host CSI plugins of type %s, which mount volumes on the node: use docker or raw_exec",
			p.Task.Driver, c.Type)}
	case !kinds.HostsController(k.Capabilities):
		return []error{fmt.Errorf("driver %q cannot host CSI plugins: use docker or raw_exec", p.Task.Driver)}
	}
	return nil
}
