// Package service computes the registrations of native services and keeps the servers up to date with them.
//
// It has two parts. Network.Resolve and Workload.Registrations are pure functions: from an allocation, its
// environment and its networks they compute what must be registered (address.go, workload.go). The Registrar sends the
// differences to the servers (registrar.go, send.go).
//
// A workload is one owner of services: the group of an allocation, or one of its tasks. Its caller sets the complete
// list of registrations and removes it. One registration goes through these states:
//
//	queued ──servers acknowledge──▶ registered ──Remove──▶ leaving ──servers acknowledge──▶ (forgotten)
//	  ▲  └────────Remove─────────────────────────────────────▲  │
//	  └───Set of a changed registration, Resync──────────┴──────┘ Set
//
// The Registrar's Run is its only goroutine that lives long. It never stops tasks and stores nothing on disk: a
// restarted agent registers the services of its running tasks again, which the servers do not write if nothing
// has changed. The servers themselves remove the registrations of allocations that are over or lost.
package service
