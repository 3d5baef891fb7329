// Package stage forks the sandbox stage: the companion entry that puts a policy on
// itself and executes a program in its place (internal/sandbox). The supervisor does so
// for tasks and the agent for programs beside a task (`alloc exec`). It knows no policy
// and keeps nothing.
//
//	Fork ──▶ stage ──policy──▶ execve ──▶ program
//	  Ready returns ┴ when the report pipe closes: at the execve, or with the reason why not
//
// A program in a PID namespace of its own, or in that of a running task, has a small init as its
// parent (internal/tinyinit).
//
//	Init:  Fork ──CLONE_NEWPID──▶ init (process 1) ──clone──▶ stage (process 2) ──▶ program
//	Enter: Fork ──▶ init ──setns(pidfd)──clone──▶ stage ──▶ program
//
// An ordinary user has all that inside a user namespace with nobody else in it (Users).
//
// A stage can be held until its starter has written down whom it has started (Held, Go): its
// report is a socket then. A starter that dies meanwhile leaves no process of which nobody knows.
//
// The stage's descriptors: 0 to 2 the program's, 3 the policy, 4 the report pipe. Those of init are
// the constants of internal/tinyinit, and the last one is the executable of init itself. The stage
// reports its errors as text.
//
// No goroutines. The kernel needs pidfds (5.4), clone3 into a group (5.7), and what init needs.
package stage
