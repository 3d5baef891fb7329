// Package launch forks the sandbox stage: the companion entry that applies a policy to itself and
// executes a program in its place (internal/sandbox). The supervisor launches tasks. The agent
// launches sessions in a task (`alloc exec`) and programs that work for a task (sandbox.Command). The
// package does not interpret the policy and keeps no state.
//
//	Launch: Fork ──▶ stage ──policy──▶ execve ──▶ program
//	    record, Go ┴  Ready returns ┴ when the report pipe closes: at the execve, or with the reason of a failure
//
// A failed Launch leaves no process.
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
// The stage's descriptors: 0 to 2 the program's, 3 the policy, 4 the report pipe, 8 the program's
// executable if the starter passes it. Those of init are the constants of internal/tinyinit, and the
// last one is the executable of init itself. The stage reports its errors as text.
//
// One goroutine, which never ends, forks the programs that must end with this process (Bound). The
// kernel needs pidfds (5.4), clone3 into a group (5.7), and what init needs.
package launch
