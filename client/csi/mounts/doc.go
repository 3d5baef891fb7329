// Package mounts mounts the CSI volumes of a node for its allocations, and unmounts them. A Manager has a record for each
// use of a volume by an allocation:
//
//	           claim              mount               mount
//	(none) ───────────▶ claimed ────────▶ mounting ◀──────── mounted
//	                       │                 │ │  publish       ▲ │
//	                       │ end             │ └────────────────┘ │ end
//	                       ▼       unmount   ▼ end                ▼
//	(none) ◀──free── detached ◀──────────── unmounting ◀──────────┘
//
// A record is stored before the first call of a plugin, and before each step that a later agent must finish or undo. All
// calls may be repeated, so a killed agent needs no other log:
//
//	claimed      the servers may have a claim; nothing is mounted
//	mounting     the plugin may have staged and published the volume
//	mounted      the volume is in the directory of the task's mounts
//	unmounting   the allocation has ended; some of the mounts may remain
//	detached     nothing is mounted; the servers may still have the claim
//
// Below Dir, the paths are those of Nomad 2.0, with one more directory that no plugin can reach:
//
//	<type>/<plugin>/staging/<namespace>/<volume>/<usage>    staged by the plugin, once for all users with the same modes
//	<type>/<plugin>/per-alloc/<alloc>/<volume>/<usage>      published by the plugin
//	mounted/<alloc>/<use>                                   what tasks mount: a bind of the published volume, or a device node
//
// A plugin can change everything below its own directory at any time. So paths are resolved below directory descriptors,
// without links and without crossing other mounts. A published volume is opened once, checked, and bound by this descriptor
// into "mounted", which belongs to root alone. Drivers get only that path: what a plugin changes later has no effect on it.
//
// Calls for one volume of the node follow each other, in the order of their requests; those of other volumes go on. The
// number of users of a staged volume is the number of records with its path.
//
// Run releases what has ended: it unmounts, again and again while the plugin is away, and only then tells the servers that the
// claim is free. A plugin that stays unregistered for Patience is not waited for any longer: the manager then unmounts
// the file systems itself, unless they are in use. Run also removes mounts that belong to no record.
//
// The package never decides who may use a volume, and has no secrets in its records, its log and its events. Goroutines:
// Run, and one for each use that is being released.
package mounts
