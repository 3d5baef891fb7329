// Package stage forks the sandbox stage: the companion entry that puts a policy on
// itself and executes a program in its place (internal/sandbox). The supervisor does so
// for tasks and the agent for programs beside a task (`alloc exec`). It knows no policy
// and keeps nothing.
//
//	Fork ──▶ stage ──policy──▶ execve ──▶ program
//	  Ready returns ┴ when the report pipe closes: at the execve, or with the reason why not
//
// A program in a PID namespace of its own, or in that of a running task, has a tiny
// parent: a freestanding program of one page, made from Go assembler (init_*.s), that
// costs a few pages of memory instead of a Go runtime's megabytes.
//
//	Init:  Fork ──CLONE_NEWPID──▶ init (process 1) ──clone──▶ stage (process 2) ──▶ program
//	Enter: Fork ──▶ init ──setns(pidfd)──clone──▶ stage ──▶ program
//
// An ordinary user has all that inside a user namespace with nobody else in it (Users).
//
// Init has the session that Fork made, the program one of its own. Init drops its
// capabilities, with Enter all but CAP_KILL: without it the kernel would not end the program
// with init (Bound). It is not dumpable, holds the wait status file, reaps whatever ends
// in the namespace, writes the program's wait status (4 bytes, native order) to that
// file, and exits: with process 1 the kernel ends the whole namespace. As process 1 it
// gets KILL and STOP from outside, and no other signal. Without Enter it also
// keeps the program's descriptors 1 and 2. Log pipes among them are open for reading, so the
// program can write when their reader has died; the program's own are for writing only.
//
// A stage can be held until its starter has written down whom it has started (Held, Go): its
// report is a socket then. A starter that dies meanwhile leaves no process of which nobody knows.
//
// The stage's descriptors: 0–2 the program's, 3 the policy, 4 the report pipe. Init's
// besides: 5 the wait status file, 6 the companion, 7 the pidfd to enter, and last init itself. It reports its
// own failures as a NUL, a letter for the step and the errno; the stage writes text.
// Its child makes room for 256 descriptors before it executes the stage: the kernel lets a
// process of several threads, as every Go program is, wait 10 ms and more for an RCU grace
// period when its table of 64 overflows, and a policy of some 30 paths does that. The child
// also lets its timers be 100 ms late, which the threads of the stage inherit: the Go runtime
// has one that looks after the others every 20 µs, and what lives 4 ms needs no looking after.
// The stage takes that back for the thread that becomes the program.
//
// No goroutines. The kernel needs pidfds (5.4), clone3 into a group (5.7), setns of
// a pidfd (5.8) and close_range (5.9).
package stage
