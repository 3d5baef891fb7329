// Package security attacks agents as a caller, a job and a task: bad tokens, hostile jobs, files, mounts, limits
// and leaks. The table of operations from inside of a task is in e2e/attack, and who may call what in e2e/access.
package security
