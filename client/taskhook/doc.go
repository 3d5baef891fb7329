// Package taskhook has everything that surrounds the process of a task: one file
// a concern, each a value with a name and any of six optional interfaces
// (lifecycle.go), in the order of order.go.
//
//	         ┌────────────────── again after a restart ─────────────────┐
//	         ▼                                                          │
//	Prestart ─▶ (driver starts the task) ─▶ Poststart ─▶ ... ─▶ Exited ─┴─▶ Stop
//	                                              PreKill ─┘
//	Update may come at any time.
//
// All contexts end when the task is killed; what a hook runs beside the task is a
// Background function, which lives as long as the process does. What a hook must
// remember over a restart of the agent is its State. Order and metrics are
// those of client/hook; the loop is client/taskrunner.
//
// Hooks write below the task's directory through descriptors only
// (client/allocdir, internal/safefs) and never log a token or an environment.
package taskhook
