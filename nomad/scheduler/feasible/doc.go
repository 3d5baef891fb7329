// Package feasible decides whether a node can run an allocation, and which resources it would
// assign.
//
// It has four parts. None of them uses the history of a job:
//
//   - Usage adds up what the live allocations of one node hold (CPU, cores, memory, disk, ports, devices) and counts
//     them. It picks cores, ports and devices for one more, if needed by preempting others. AllocsFit computes the
//     same sum in one call. The scheduler and the plan applier share it, so that they never disagree.
//   - Constraint compiles a constraint once (versions, regular expressions)
//     and evaluates it against many nodes.
//   - Group collects the demands of one task group on a node's properties, and
//     names the first demand that a node does not meet.
//   - Eligibility caches the results by computed node class, because nodes of one
//     class have the same properties. A blocked evaluation waits for the classes
//     that it records.
//
// An allocation counts until the servers stop it, or until its client has ended it.
//
// The package reads no clock, takes its randomness as an argument and starts no goroutine. Its
// types are not safe for concurrent use.
package feasible
