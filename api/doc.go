// Package api is the Go SDK of the HTTP API: the JSON types of jobs, allocations, nodes
// and other objects, and a Client with a handle for each of them.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	resp, _, err := client.Jobs().Register(job, nil)
//
// The names equal those of the official SDK. Durations are nanoseconds in JSON. The types of
// jobs are in api/workload.
//
// A Client is safe for concurrent use. AllocFS.Stream, AllocFS.Logs and EventStream.Stream
// start a goroutine that runs until the stream ends. Other methods start none.
package api
