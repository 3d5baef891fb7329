// Package reconcile compares what a job asks for with what runs, and says what
// should change. It never asks where something could run.
//
// An allocation of a service or batch job is in one class at a time:
//
//	             ┌─ running ──┬─ same version ────────────▶ ignore
//	             │            ├─ nothing a task sees ─────▶ update in place
//	allocation ──┤            └─ something a task sees ───▶ replace, max_parallel at a time
//	             ├─ told to move, node draining ──────────▶ stop, place
//	             ├─ node down or gone ────────────────────▶ stop as lost, place
//	             ├─ failed ───┬─ attempts left, due ──────▶ place, then stop
//	             │            ├─ attempts left, not due ──▶ follow-up evaluation
//	             │            └─ none left ───────────────▶ ignore: it keeps its place
//	             ├─ completed, batch ─────────────────────▶ ignore: it keeps its place
//	             └─ stopped by the servers ───────────────▶ history
//
// What then lacks to the count is placed under the lowest free names; what is
// too much is stopped. Generic does this for service and batch jobs with their
// deployments, System for jobs that run on every node.
//
// Both are pure: time and IDs come with the request, allocations and jobs are
// never written to.
package reconcile
