package admission

import (
	"fmt"
	"path"
	"strings"

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

// pluginWarning returns a warning about a CSI plugin that may not work with its driver on every node, or "".
func pluginWarning(k *drivers.Kind, p Place) string {
	c := p.Task.CSIPluginConfig
	if c == nil {
		return ""
	}
	mount, _ := c.Dirs()
	switch isolation := k.Capabilities.FSIsolation; {
	case isolation == drivers.FSIsolationChroot && csi.MountsVolumes(c):
		return fmt.Sprintf("%s: the CSI plugin can mount volumes only with user = \"root\", cap_add = [\"sys_admin\"], and on nodes whose "+
			"plugin block of %q allows them with landlock = false and seccomp = false: docker and raw_exec need none of these", p, p.Task.Driver)
	case isolation == drivers.FSIsolationUnveil && path.IsAbs(mount) && !strings.HasPrefix(path.Clean(mount), drivers.PrivateTmp+"/"):
		return fmt.Sprintf("%s: mount_dir of csi_plugin is %q, which must exist on the nodes with driver %q: use \"/tmp/csi\"", p, mount,
			p.Task.Driver)
	}
	return ""
}
