// Package denials learns from the kernel what the sandboxes of tasks refused, and
// whose task it was.
//
// The kernel writes audit records; their multicast group 1 can be read beside a
// running auditd. Which records there are is the operator's choice, for it is a switch
// of the whole host:
//
//	Off    nothing is read
//	Calls  1326, system calls that seccomp answers with an error: the kernel writes
//	       them whenever a filter asks for it (SECCOMP_FILTER_FLAG_LOG) and
//	       /proc/sys/kernel/seccomp/actions_logged has "errno"
//	Audit  also 1423, what Landlock refuses, with 1424 (which process the Landlock
//	       domain is of) and 1300 (who called): these need auditing to be on
//
// What was changed is put back as it was found when the last agent of the host that
// needs it ends, or, after a crash, when the next one begins (switch.go). Where no
// auditd runs, the kernel also writes the records into its log, rate-limited, with the
// paths and names of programs; a rule keeps command lines out (rule.go).
//
//	record ──▶ parse ──▶ Denial ──domain, uid, control group, pid──▶ task
//	                                        └── nobody's: dropped
//	task: first Denial ──settleTime──▶ told ──more, or a flood──▶ told again, a pause apart
//
// Everything in a record that a task can choose is hostile: bounded, decoded, and
// printed quoted. A task cannot write records. It can be refused a great many things:
// equal ones, and those of a task that has maxDistinct different ones, are counted before
// they are parsed. A flood is one report with its number, and the reports about a task are
// bounded in rate and number. What the kernel drops since it is not read in time is only
// counted. Probes that are known to be harmless are not reported (noise.go).
//
// Two goroutines inside Run. It decides nothing about sandboxes.
package denials
