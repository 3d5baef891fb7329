// Package api is the Go SDK of the HTTP API: the types of jobs, allocations,
// nodes and so on as JSON shows them, and a Client with a handle for each noun.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	resp, _, err := client.Jobs().Register(job, nil)
//
// Names are those of the official SDK. In the types of a job a nil pointer means
// that the field was not given; Job.Canonicalize fills in the defaults. Durations
// are nanoseconds in JSON.
//
// The `hcl` tags name the attributes and blocks of a job file; package jobspec
// reads them.
//
// A Client is safe for use by several goroutines and starts none, except that
// AllocFS.Stream, AllocFS.Logs and EventStream.Stream run one until their stream ends.
package api
