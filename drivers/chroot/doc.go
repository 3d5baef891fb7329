// Package chroot is the common part of the drivers whose tasks have a root directory of their own: exec and java.
// The root is assembled in the task's mount namespace. It has read-only binds of directories of the host (the
// client's chroot_env) and the task's own directories. Nothing is copied.
//
//	config blocks ──Options, Plugin──▶ setup: user, capabilities ──▶ layout: binds, links ──▶ sandbox.Policy with a Root
//
// A driver adds its schemas, its fingerprint and the command of a task (Variant). Package drivers/process implements
// states, recovery and exits.
//
// A task runs as an ordinary user with the capabilities that Nomad gives it (capabilities.go). The binds of the host
// are ID-mapped mounts (owners.go): they show the task's user and its groups as owners, and all others as nobody. So
// neither a capability nor a change of the user gives access to a file of another owner, unless everybody has it.
//
// Goroutines: one per call of Fingerprint, which ends with its context.
package chroot
