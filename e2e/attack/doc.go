// Package attack tries to get out of the sandbox of the driver exec2.
//
// An Operation is one thing that a task has no business to do, or that looks as if it
// had none. The program e2e/attack/probe runs as a task of a real agent and tries all of
// them on Targets that a test laid out around it, each in a process of its own, and
// prints a line for each:
//
//	<class>/<operation> TAB allowed | denied <errno> | absent <errno> | nothing
//
// "allowed" means that the operation took effect; "absent" that what it aims at does
// not exist for the task; "nothing" that it looked for something and found none.
//
// The tests hold these lines, for several situations, against tables in testdata
// (go test -update rewrites them: look at each change). An operation that is allowed
// anywhere must give its reason; a reason that no situation needs is an error too. So
// that no refusal is one of a broken probe, the same operations are also tried as root
// without a sandbox, where each must succeed.
//
// Nothing here starts a goroutine that outlives a call. The probe does no lasting harm
// where it succeeds: it signals with signal 0, changes only what was made to be changed.
package attack
