// Package reconcile compares the desired state of a job with its allocations and returns the
// required changes. It never chooses nodes.
//
// An allocation of a service or batch job is in one class at a time:
//
//	             ┌─ running ──┬─ same version ────────────▶ ignore
//	             │            ├─ no effect on tasks ──────▶ update in place
//	allocation ──┤            └─ affects the tasks ───────▶ replace, max_parallel at a time
//	             ├─ asked to migrate ─────────────────────▶ stop, place
//	             │   └─ without placement ────────────────▶ stop: still counts
//	             ├─ node down or gone ────────────────────▶ stop as lost, place
//	             ├─ failed ───┬─ attempts left, due ──────▶ place, then stop
//	             │            ├─ attempts left, not due ──▶ follow-up evaluation
//	             │            └─ none left ───────────────▶ ignore: still counts
//	             ├─ completed, service ───────────────────▶ follow-up evaluation, then place
//	             ├─ completed, batch ─────────────────────▶ ignore: still counts
//	             └─ stopped by the servers ───────────────▶ ignore
//
// A system job has one allocation of a group on each node. With a deployment, a percentage of the nodes is updated
// first, as canaries, and then max_parallel nodes at a time. Without one, the updates are staggered.
//
// Missing allocations are placed under the lowest free names; excess ones are stopped. Generic does
// this for service and batch jobs and their deployments, System for system and sysbatch jobs.
//
// Three files handle special cases first. The code in disconnect.go separates the allocations whose clients have no
// contact to the servers. That in reconnect.go chooses between an allocation whose client returned and its
// replacement. That in canary.go adds the canaries of a version, and keeps the old allocations until the promotion.
//
// Both are pure functions: the request carries the time and the IDs, and allocations and jobs are
// never modified.
package reconcile
