package nomad

import "time"

// The defaults of csi_plugin blocks.
const (
	defaultCSIMountDir      = "/csi"
	defaultCSIBaseDir       = "/local/csi"
	defaultCSIHealthTimeout = 30 * time.Second
)

// Dirs returns the directories of the plugin in its task: mount contains its socket, and base the volumes.
func (c *TaskCSIPluginConfig) Dirs() (mount, base string) {
	mount, base = c.MountDir, c.StagePublishBaseDir
	if mount == "" {
		mount = defaultCSIMountDir
	}
	if base == "" {
		base = defaultCSIBaseDir
	}
	return mount, base
}

// Timeout returns how long the plugin may take until it is healthy.
func (c *TaskCSIPluginConfig) Timeout() time.Duration {
	if c.HealthTimeout == 0 {
		return defaultCSIHealthTimeout
	}
	return c.HealthTimeout
}
