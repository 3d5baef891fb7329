// Package instances knows the instances of CSI plugins on this node, and their health. An instance is a task that listens on a
// socket. A plugin of type monolith has two: one for each Kind.
//
// The hook of the task registers an instance when the plugin is ready, and deregisters it when the task ends. The newest
// instance of a kind and plugin ID serves. The others wait in case it is deregistered, as during an update of the plugin's job:
//
//	Register ──▶ initial ──described, ready──▶ healthy ◀──probe── ──probe──▶ unhealthy
//	                └──────────error──────────▶ unhealthy ──────────ready──────▶ healthy
//	Deregister: the next instance serves; without one, the plugin is unhealthy and stays on the node's record
//
// An instance is described once (capabilities of the plugin, ID of the node) and then probed every 30 seconds, or every 5
// seconds while it is not healthy. Each instance has a goroutine inside Run, so a plugin that hangs delays no other.
//
// Instances are stored in the client state. Restore reads them before the tasks are restored, so that volumes can be unmounted
// at once. A restart of the agent changes nothing about the plugins, which go on running: it does not mark them unhealthy,
// unlike in Nomad 2.0. Ready waits for their first probe, so that the node registers with their health.
//
// The package starts no plugin, and never decides whether its task is restarted. It mounts nothing.
package instances
