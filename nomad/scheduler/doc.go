// Package scheduler turns a view of the state and one evaluation into a plan.
//
//	evaluation ──▶ reconcile (what should change) ──▶ stack (where) ──▶ plan
//	                      ▲                                             │
//	                      └──── newer view, if parts were rejected ◀────┘
//
// New returns the scheduler for a type of job. Package reconcile compares the job with its allocations. The stack
// visits nodes: package feasible filters them, and a scorer ranks the others. The Explainer makes the same checks
// without a plan, for 'nomad job explain'.
//
// A search tries a node once, and again when it has changed: only the score of its spreads changes with the placements on
// other nodes, and it is the same for all nodes with the same values. So the search of a job that compares all nodes
// reads one small rating of each (ratings.go). TestRatings compares it with a search that tries all of them.
//
// The result depends only on the view, the evaluation, the clock and the seed. A scheduler never
// writes state, never contacts a client, and waits only for the Planner. It is used for one
// evaluation, by one goroutine.
package scheduler
