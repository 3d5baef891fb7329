package admission

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
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

// joins returns an error if the job joins a CSI plugin whose jobs are in another namespace, and the asker may not register
// plugins there. All jobs with one plugin ID are one plugin: each of them receives the secrets of its volumes. A job that is part
// of the plugin stays so. What the servers derive from a registered version was admitted with it.
func (w *write) joins() error {
	if w.cfg.Open && w.who.access == nil || w.who.dry || !w.who.submits() {
		return nil
	}
	for _, p := range Places(w.job) {
		if p.Task.CSIPluginConfig == nil {
			continue
		}
		plugin := w.snap.CSIPlugin(nil, p.Task.CSIPluginConfig.ID)
		if plugin == nil {
			continue
		}
		for _, ns := range namespacesOf(plugin, w.job) {
			why := fmt.Sprintf("task %q joins CSI plugin %q, which is of jobs in another namespace: use another plugin ID", p.Task.Name, plugin.ID)
			if err := w.who.allow(need{acl.InNamespace(ns, acl.CSIRegisterPlugin), why, false}); err != nil {
				return err
			}
		}
	}
	return nil
}

// namespacesOf returns the other namespaces of a plugin's jobs, sorted. There is none if the job is one of them.
func namespacesOf(p *csi.Plugin, job *nomad.Job) []string {
	found := map[string]bool{}
	for _, kind := range csi.Kinds() {
		for ns, ofNamespace := range p.Jobs(kind) {
			if _, own := ofNamespace[job.ID]; own && ns == job.Namespace {
				return nil
			}
			found[ns] = len(ofNamespace) > 0 || found[ns]
		}
	}
	maps.DeleteFunc(found, func(ns string, some bool) bool { return !some || ns == job.Namespace })
	return slices.Sorted(maps.Keys(found))
}
