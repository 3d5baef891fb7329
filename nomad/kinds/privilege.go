package kinds

import (
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Needs returns what needs privileged = true in a task on a node. It is empty if nothing does, or if
// only the node can decide.
func (t Table) Needs(node *nomad.Node, task *nomad.Task) string {
	return needs(t.On(node, task.Driver), task)
}

// Needs returns what needs privileged = true in a task. It is empty if nothing does, or if only nodes
// can decide.
func (n *Names) Needs(task *nomad.Task) string { return needs(n.Kind(task.Driver), task) }

func needs(k *drivers.Kind, task *nomad.Task) string {
	if k == nil || k.NeedsPrivilege == nil {
		return ""
	}
	if why := k.NeedsPrivilege(task.Config); why != "" {
		return why
	}
	return PluginNeeds(k.Capabilities, task)
}

// PluginNeeds returns why a CSI plugin needs privilege on a driver that offers it and has these capabilities, or "".
// Such a driver gives the task the devices of the node, and mounts of the task appear on the node.
func PluginNeeds(c drivers.Capabilities, task *nomad.Task) string {
	if csi.MountsVolumes(task.CSIPluginConfig) && c.FSIsolation != drivers.FSIsolationNone {
		return fmt.Sprintf("csi_plugin of type %s gives the task the devices of the node, and mounts of the task appear on the node",
			task.CSIPluginConfig.Type)
	}
	return ""
}

// Offers reports whether a driver of a node runs tasks with privileged = true. If tasks of its kind can need privilege, an
// instance with the legacy behaviour does, because it runs them without it too.
func (t Table) Offers(node *nomad.Node, driver string) bool {
	if k := t.On(node, driver); k != nil && k.Privileged() && (k.Unconfined() || t.Legacy(node, driver)) {
		return true
	}
	return is(node, driver, drivers.PrivilegedKey)
}

// Legacy reports whether a driver of a node runs tasks that need privilege without privileged = true:
// by drivers.LegacyOption, or because its client does not report the kinds of its drivers. Such a
// client is of another build or of an earlier version, and ignores privileged = true.
func (t Table) Legacy(node *nomad.Node, driver string) bool {
	return node.Attributes[drivers.Attribute(driver, drivers.BackendKey)] == "" || is(node, driver, drivers.LegacyKey)
}

// Legacy reports whether there is a node with the driver for which Table.Legacy is true. It is false
// without nodes.
func (n *Names) Legacy(driver string) bool { return n.reported()[driver].legacy }

// is reports whether the attribute of a driver is true.
func is(node *nomad.Node, driver, key string) bool {
	on, err := strconv.ParseBool(node.Attributes[drivers.Attribute(driver, key)])
	return err == nil && on
}
