// Package hostvolume creates and deletes the dynamic host volumes of a node with plugins. A Manager
// has one method for each RPC of the node:
//
//	servers ─▶ Create, Register, Delete ─▶ plugin ─▶ directory
//	                     │
//	                     └─▶ Store (host_volumes_to_create) ─▶ Restore, after a restart of the agent
//
// A plugin is the built-in "mkdir", which makes a directory, or an executable in the plugin directory. An executable is
// opened inside that directory without following links, and run by its descriptor. Its output, its run time and its
// environment are limited, and its process group is killed at the limit.
//
// A create is stored as unfinished before the plugin is called. After a crash, Restore deletes what an unfinished
// create left behind, because the servers did not record the volume. It repeats all other creates: a plugin must accept
// a create of a volume that exists.
//
// The package starts goroutines only within its calls. It decides nothing about placement and never calls a server.
package hostvolume
