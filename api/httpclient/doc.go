// Package httpclient is the client of the HTTP API: a Client with a handle for each type of
// object. The bodies of requests and responses are the types of package api.
//
//	client, err := httpclient.NewClient(httpclient.DefaultConfig())
//	resp, _, err := client.Jobs().Register(job, nil)
//
// The names equal those of the official SDK. Reads take QueryOptions and writes take
// WriteOptions. A nil value means the region, namespace and token of the Config. A response with
// a status other than 2xx is an UnexpectedResponseError.
//
// A Client is safe for concurrent use. AllocFS.Stream, AllocFS.Logs and EventStream.Stream
// start a goroutine that runs until the stream ends. Other methods start none.
package httpclient
