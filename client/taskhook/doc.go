// Package taskhook holds the hooks that run around the process of a task. Each concern has one file
// and one hook, which implements any of eight optional interfaces (lifecycle.go). order.go sets
// their order.
//
//	         ┌────────────────── again after a restart ─────────────────┐
//	         ▼                                                          │
//	Prestart ─▶ (driver starts the task) ─▶ Poststart ─▶ ... ─▶ Exited ─┴─▶ Stop
//	                                              PreKill ─┘
//
// Update, EnvChanged and Render can be called at any time while the task runs. Prestart also runs when a restarted agent recovers a
// running process. Running is then set in the request: change nothing that belongs to the start.
//
// All contexts are cancelled when the task is killed. Work that continues while the process
// runs is a Background function, whose context ends with the process. Data that a hook needs
// after a restart of the agent is its State. Package client/hook calls and measures the hooks;
// client/taskrunner holds the loop.
//
// To add a hook:
//
//  1. Write a file with the type, its Name, the methods it needs from lifecycle.go and a
//     constructor func(Config) hook.Hook.
//  2. Add a row with the constructor to Order, at the place where the hook must run.
//  3. Test it with prestart of taskhook_test.go, which runs all hooks of Order in a temporary directory.
//
// The constructor takes what it needs from Config. A new dependency on the node is a new field of
// Deps, which package client sets (client/allocations.go). The runners only pass Deps on, so they need no
// change.
//
// Hooks write below the task's directory only through descriptors (client/allocdir,
// internal/safefs): dispatch.go is an example. They never log a token or an environment.
package taskhook
