// Package api holds the JSON types of the HTTP API. They are objects, such as allocations, nodes
// and ACL policies, and the bodies of requests and responses.
//
// The names equal those of the official SDK. Durations are nanoseconds in JSON, except where a
// type has its own MarshalJSON. The types of jobs are in api/workload. The client that sends
// requests is in api/httpclient.
//
// The package does no I/O.
package api
