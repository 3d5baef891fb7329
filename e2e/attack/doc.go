// Package attack tries to escape from the sandbox of the driver exec2.
//
// An Operation is one action that a task must not do, or that appears forbidden. The program
// e2e/attack/probe runs as a task of a real agent. It tries each operation on the Targets that a
// test has prepared, in a separate process. It prints one line for each:
//
//	<class>/<operation> TAB allowed | denied <errno> | absent <errno> | nothing
//
// "allowed" means that the operation took effect. "absent" means that its target does not exist for
// the task. "nothing" means that a search found nothing.
//
// The tests compare these lines with tables in testdata for several situations. "go test -update"
// rewrites the tables: review each change. An allowed operation must have a reason, and a reason
// that no situation needs is an error. The same operations also run as root without a sandbox,
// where each must succeed. This shows that a rejection is not caused by a broken probe.
//
// No goroutine outlives a call. A successful operation does no lasting harm: it sends signal 0, or
// changes only objects created for it.
package attack
