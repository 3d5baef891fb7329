// Package workload holds the types of a job: the job, its groups and tasks, and their blocks.
//
//	Job ── TaskGroup ── Task ── Resources, Template, Vault, ...
//	           └── NetworkResource, Service, VolumeRequest, ...
//
// The names equal those of the official SDK and of the HTTP API. A nil pointer is an unset field.
// Job.Canonicalize sets the defaults that do not depend on the servers. Durations are nanoseconds
// in JSON. The `hcl` tags are the names of attributes and blocks in a job file, for package
// jobspec.
//
// The package sends no requests and validates nothing. The servers validate jobs.
package workload
