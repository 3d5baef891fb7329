package csi

import "github.com/open-nomad/open-nomad/nomad"

// MountsVolumes reports whether a csi_plugin block makes its task mount volumes on its node. Only a controller does not.
func MountsVolumes(c *nomad.TaskCSIPluginConfig) bool { return c != nil && c.Type != PluginController }

// Controls reports whether a csi_plugin block makes its task a controller plugin.
func Controls(c *nomad.TaskCSIPluginConfig) bool {
	return c != nil && (c.Type == PluginController || c.Type == PluginMonolith)
}
