// Package check runs the health checks of services and keeps their latest results.
//
// Targets computes from an allocation what must be checked (target.go). A Set holds the checks of all allocations of
// the node. Set.Watch runs those of one allocation until its context ends:
//
//	pending ──first result──▶ success, warning, failure (any to any)
//
// initial_status replaces pending. Without thresholds the latest result decides the status. With them, a number of
// results in a row does, and a failure never improves the status (status.go). The counters of a restarted agent begin
// with 0. The first run starts after a random delay of half an interval to one interval, so that checks which are added
// together run at different times. The next run starts one interval after the result of the previous one.
//
// Set.Describe adds the health to the registrations of a workload: the worst status of the checks of a service.
// Set.Follow reports changes of a status, after which the caller registers again (health.go).
//
// Checks of services of provider consul are in Consul, which runs them and determines their status (consul.go):
//
//	pending ──Consul reports it──▶ success, warning, failure ──Consul does not have it──▶ pending
//
// The checks of the sidecar of a service in the mesh are among them. A failed request to Consul changes nothing. Only scripts are run here, in the task: at once after each start of the task,
// then after each interval. Consul gets the result and reports it back. Results of these checks are not stored.
// Set.Registered sets IDs in Consul that differ from those before the start of the task.
//
// A target may be hostile. The timeout of a run includes the body. A run reads at most 3,072 bytes of a body and 64
// KiB of headers, and 4 KiB of a gRPC message. It uses no proxy and makes a new connection. It follows redirects to the
// same scheme, host and port only. An address that a job sets must not be link-local or that of a metadata service
// (internal/dialguard). Checks of an allocation with a network namespace connect from inside that namespace. At most 8
// checks of one allocation and 256 of the node run at once.
//
// Results are in memory. A result is also stored in the state database if its status differs from the stored one.
// A restarted agent begins with the stored results. A result never removes a service from the servers. The names and
// outputs of checks are the job's text, which is never logged.
//
// Each check has one goroutine, which ends with Watch. Restarts (restart.go) computes when a check_restart block
// requires a restart; the caller restarts the task. The package calls no server and makes no decision about
// deployments.
package check
