// Package scheduler turns a view of the state and one evaluation into a plan.
//
//	evaluation ──▶ reconcile (what should change) ──▶ stack (where) ──▶ plan
//	                      ▲                                             │
//	                      └──── newer view, if parts were rejected ◀────┘
//
// The result depends only on the view, the evaluation, the clock and the seed. A scheduler never
// writes state, never contacts a client, and waits only for the Planner. It is used for one
// evaluation, by one goroutine.
package scheduler
