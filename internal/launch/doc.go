// Package launch forks the sandbox stage: the companion entry that applies a policy to itself and
// executes a program in its place (internal/sandbox). The supervisor launches tasks. The agent
// launches sessions in a task (`alloc exec`) and programs that work for a task (sandbox.Command). The
// package does not interpret the policy and keeps no state.
//
//	Fork ──▶ stage ──policy──▶ execve ──▶ program
//	  │                           │
//	  └─ Go, if it was held       └─ Ready returns
//
// The report pipe closes at the execve. If the stage fails before, it writes the reason to the pipe, and Ready
// returns it. A failed start leaves no process.
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
// The stage has the descriptors 0 to 2 of the program, the policy (3) and the report pipe (4). Descriptor
// 8 is the executable of the program if the starter passes it. With Enter, the files of control groups follow.
// Package internal/tinyinit has constants for those of init. The stage reports its errors as text.
//
// One goroutine, which never ends, forks the programs that must end with this process (Bound). The
// kernel needs pidfds (5.4), clone3 into a group (5.7), and what init needs.
package launch
