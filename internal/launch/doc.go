// Package launch forks the sandbox stage: the companion entry that applies a policy to itself and
// executes a program in its place (internal/sandbox). The supervisor launches tasks, and the agent
// launches programs next to a task (`alloc exec`). The package does not interpret the policy and
// keeps no state.
//
//	Fork ──▶ stage ──policy──▶ execve ──▶ program
//	  Ready returns ┴ when the report pipe closes: at the execve, or with the reason of a failure
//
// A program in a PID namespace of its own, or in that of a running task, has a small init as its
// parent (internal/tinyinit).
//
//	Init:  Fork ──CLONE_NEWPID──▶ init (process 1) ──clone──▶ stage (process 2) ──▶ program
//	Enter: Fork ──▶ init ──setns(pidfd)──clone──▶ stage ──▶ program
//
// An agent without root makes these namespaces inside a user namespace that maps only its own user
// (Users).
//
// A stage can be held until its starter has recorded its process number (Held, Go). Its report is a
// socket then. If the starter dies before Go, the stage ends.
//
// The stage's descriptors: 0 to 2 the program's, 3 the policy, 4 the report pipe. Those of init are
// the constants of internal/tinyinit, and the last one is the executable of init itself. The stage
// reports its errors as text.
//
// No goroutines. The kernel needs pidfds (5.4), clone3 into a group (5.7), and what init needs.
package launch
