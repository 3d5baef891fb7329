// Package feasible answers whether a node can take an allocation and what it
// would be given there.
//
// It has four parts, none of which knows a job's history:
//
//   - Usage adds up what the live allocations of one node hold (CPU, cores,
//     memory, disk, ports, number) and picks cores and ports for one more.
//     AllocsFit is the same sum as one call: the scheduler and the leader's
//     check of plans therefore never disagree.
//   - Constraint compiles a constraint once (versions, regular expressions)
//     and evaluates it against many nodes.
//   - Group gathers what one task group demands of a node's properties, and
//     names the first demand that a node fails.
//   - Eligibility remembers the answers by computed class, which is also what
//     a blocked evaluation waits for.
//
// An allocation counts while neither the servers nor its client ended it.
//
// Nothing here reads a clock, draws a random number of its own, starts a
// goroutine or is safe for concurrent use.
package feasible
