// Package chroot is the common part of the drivers whose tasks have a root directory of their own: exec and java.
// The root is assembled in the task's mount namespace, from read-only binds of directories of the host (the
// client's chroot_env) and the task's directories. Nothing is copied.
//
//	config blocks ──Options, Plugin──▶ checks ──▶ Layout of chroot_env ──▶ sandbox.Policy with a Root
//
// A driver adds its schemas, its fingerprint and the command of a task (Variant). Package drivers/process implements
// states, recovery and exits.
//
// A task runs as an ordinary user with the capabilities of upstream's rules (capabilities.go). The host's files keep
// the owners that the task's user is, and no others: a capability, or a change of the user, opens no file of the host
// that its mode does not open for everybody.
//
// Goroutines: one per call of Fingerprint, which ends with its context.
package chroot
