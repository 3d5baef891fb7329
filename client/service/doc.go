// Package service computes the registrations of native services and keeps the servers up to date with them.
//
// It has two parts. Network.Resolve and Workload.Registrations are pure functions (address.go, workload.go). They
// compute the registrations from an allocation, its environment and its networks. The Registrar sends the differences
// to the servers (registrar.go, send.go). A Publisher passes the registrations of one workload to it, again after each
// change of their health. It passes services of provider consul to another registrar, that of package client/consul.
//
// A workload is one owner of services: the group of an allocation, or one of its tasks. Its caller sets the complete
// list of registrations and removes it. One registration goes through these states:
//
//	queued ──servers acknowledge──▶ registered ──Remove──▶ leaving ──servers acknowledge──▶ (removed)
//	  ▲  └────────Remove─────────────────────────────────────▲  │
//	  └───Set of a changed registration, Resync──────────┴──────┘ Set
//
// A registration that differs from the acknowledged one in its health only is sent at a limited rate (pace.go): two
// changes at once, then one every 5 s. The last state is always sent. Other changes and removals do not wait.
//
// Registrar.Run has two loops, the only long-lived goroutines: one for the removals that a task waits for, one for
// everything else. At most one call about a registration is in progress. So a removal waits for an older call about
// the same registration only. The package never stops tasks and stores nothing on disk. A restarted agent registers
// the services of its running tasks again. The servers ignore registrations that have not changed. They remove the
// registrations of allocations that have ended or are lost. Registrar.Leftovers removes those that the previous agent
// could not remove, such as of a task that was paused while no server answered (leftovers.go).
package service
