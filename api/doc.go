// Package api is the SDK of the HTTP API: the client, and the types of all requests and responses.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	resp, _, err := client.Jobs().Register(job, nil)
//
// The names and shapes equal those of the official SDK, github.com/hashicorp/nomad/api, so that a
// program can change the import path and compile. This is the reason for one large package. It has
// three kinds of files, each named for its noun:
//
//	Job ── TaskGroup ── Task ── Resources, Template, Vault, ...   job.go, group.go, task.go, ...
//	Client ── Jobs(), Nodes(), Allocations(), Variables(), ...    a handle, with the types of its noun
//	NewClient ── Config, TLSConfig, QueryOptions, WriteOptions    client.go, config.go, tls.go, options.go
//
// A nil pointer is an unset field. Job.Canonicalize sets the defaults that do not depend on the
// servers. The servers validate jobs. Durations are nanoseconds in JSON, except where a type has
// its own MarshalJSON. The `hcl` tags are the names of attributes and blocks in a job file, for
// package jobspec.
//
// Reads take QueryOptions and writes take WriteOptions. A nil value means the region, namespace and
// token of the Config. A response with a status other than 2xx is an UnexpectedResponseError.
//
// A Client is safe for concurrent use. AllocFS.Stream, AllocFS.Logs and EventStream.Stream start a
// goroutine that runs until the stream ends. Other methods start none.
package api
