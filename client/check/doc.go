// Package check runs the health checks of native services and keeps their latest results.
//
// Targets computes from an allocation what must be checked (target.go). A Set holds the checks of all allocations of
// the node. Set.Watch runs those of one allocation until its context ends:
//
//	pending ──first result──▶ success ◀──each result──▶ failure
//
// A single result decides the status; there are no thresholds. The first run is after a random time between a half
// and a whole interval, so that checks which begin together do not run in lockstep. The next run is one interval
// after the result of the previous one.
//
// A target may be hostile. A run has a timeout that includes the body, reads at most 3,072 bytes of a body and 64 KiB
// of headers, uses no proxy and no connection twice. It follows redirects to the same scheme, host and port only. An
// address that a job sets must not be link-local or that of a metadata service (internal/dialguard). Addresses that
// belong to an allocation with a network namespace are reached from inside of that namespace. At most 8 checks of one
// allocation and 256 of the node run at once.
//
// Results are in memory. The state database gets one only when its status differs from the stored one; a restarted
// agent starts with them. A result never removes a service from the servers.
//
// Each check has one goroutine, which ends with Watch. The package starts no task, makes no call to a server and
// decides nothing about deployments and restarts, except for Restarts (restart.go), which computes when a
// check_restart block requires a restart.
package check
