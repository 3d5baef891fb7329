// Package scheduler turns a view of the state and one evaluation into a plan.
//
//	evaluation ──▶ reconcile (what should change) ──▶ stack (where) ──▶ plan
//	                      ▲                                             │
//	                      └──── newer view, when parts were refused ◀───┘
//
// Its result depends on the view, the evaluation, the clock and the seed it is
// given, on nothing else. It never writes state, talks to a client, or waits
// for anything but the Planner. A scheduler is used for one evaluation by one
// goroutine.
package scheduler
