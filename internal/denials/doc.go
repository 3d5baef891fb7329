// Package denials reads from the kernel which accesses the sandboxes of tasks refused, and
// attributes each to its task.
//
// The kernel writes audit records; its multicast group 1 can be read in parallel to a running auditd.
// The operator selects the records by a mode, since the switches apply to the whole host:
//
//	Off    nothing is read
//	Calls  1326, system calls that seccomp answers with an error: the kernel writes
//	       them if a filter requests it (SECCOMP_FILTER_FLAG_LOG) and
//	       /proc/sys/kernel/seccomp/actions_logged has "errno"
//	Audit  also 1423, denials by Landlock, with 1424 (the process of the Landlock
//	       domain) and 1300 (the caller): these need auditing to be on
//
// The last agent on the host that needs the switches restores them when it ends. After a crash the
// next agent restores them when it starts (switch.go). Without auditd, the kernel also writes the
// records to its log, rate-limited, with the paths and names of programs. A rule keeps command lines
// out (rule.go).
//
//	record ──▶ parse ──▶ Denial ──domain, uid, control group, pid──▶ task
//	                                        └── no task: dropped
//	task: first Denial ──settleTime──▶ report ──more, or a flood──▶ further reports, a pause apart
//
// Everything in a record that a task can choose is hostile: it is bounded, decoded, and printed
// quoted. A task cannot write records, but it can cause many denials. Repetitions, and denials of a
// task that has maxDistinct different ones, are counted without being parsed. A flood is one report
// with its count, and the reports about a task are limited in rate and number. Records that the kernel
// drops because they are not read in time are only counted. Probes that are known to be harmless are
// not reported (noise.go).
//
// Run has two goroutines. The package does not change sandboxes.
package denials
