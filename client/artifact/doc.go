// Package artifact downloads the artifacts of a task.
//
// The download runs in a separate program (internal/fetch), which the driver confines as the task. This
// package prepares it, limits it, and checks and moves its result. It trusts neither the server of the
// artifact nor the program:
//
//	<task>/.nomad-artifact-<random>/     0711 of the agent
//	  work/                              0700 of the task's user, the only directory that the program can write
//	    out                              the artifact
//	    archive, signature               what was downloaded to make it
//	  archive or file                    the same, taken out of the reach of the program
//
//	      ┌──────────── cache hit ─────────────┐
//	      │                                    ▼
//	download ──▶ take ──▶ hash, checksum, signature ──▶ unpack ──▶ inspect ──▶ merge into the destination
//	      │                    (files only)            (archives)     ▲
//	      └──────────────────── directories ──────────────────────────┘
//
// Download and unpack are two processes. The second one has no network, and gets the archive that this
// package has checked, so that what was hashed is what is unpacked. During both, the package measures
// the directory every 250 ms and ends the program when it exceeds a limit.
//
// Every operation on files of the program goes through descriptors (internal/safefs). The directory is
// always removed. RemoveLeftovers removes the directories of an agent that was killed.
//
// Errors name the artifact's source without its query, and contain no option or header of the job.
//
// Fetch runs three downloads at a time, each with goroutines for the output of the program and the limits;
// it waits for all of them.
package artifact
