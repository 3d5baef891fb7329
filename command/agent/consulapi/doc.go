// Package consulapi serves the reads of Consul's HTTP API on a loopback port of a client (open-nomad only). Programs that
// find services or read keys with Consul use it without a change.
//
//	request ─▶ sizes, Host, one token ─▶ httpapi/web: audit, origin, route ─▶ query ─▶ RPCs ─▶ Consul's structures
//	                                                      └─▶ 404, 405, 501        ▲         │
//	                                                                               └─────────┘ a blocking query whose
//	                                                                                           answer has not changed
//
// The routes are rows of tables: reads, and the known paths that are not served (501). Services are service registrations
// of a Nomad namespace, nodes are clients, and keys are variables below consul/ (nomad/consulkey). Consul's datacenter is
// the datacenter of the agent: rows of other datacenters are left out.
//
// Every read is an RPC with the token of the request, so that the servers decide what the caller may read. The package
// writes nothing, has no rights of its own, and keeps no data but digests of recent answers. With a digest,
// a blocking query continues if only the index has changed.
//
// Server.Serve listens and serves until its context ends. It starts one goroutine per connection.
package consulapi
