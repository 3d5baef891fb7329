// Package testconsul is a strict stand-in of an agent of Consul, for tests. It serves the part of Consul's HTTP API that
// an orchestrator and its templates use: registration of services and checks, catalog and health with blocking queries,
// keys, and ACLs with logins by JWT. No program imports it.
//
//	Start ──▶ running ──Set(Mode{Refuse: true})──▶ refusing connections ──Set(Mode{})──▶ running
//	             └──Restart──▶ running, with empty state and a lower index
//
// Strict: a call that a correct client never makes is a fault, such as an unknown JSON field, a malformed ID, or a token
// without the right. A fault fails the test at its end, unless the test expects it. Agent.Expect names such a fault, and
// a fault that is expected and never occurs fails the test too.
//
// State: local services and checks, one node, keys, ACL objects. Every write raises the index, and each name and key
// has the index of its last change. Reads with ?index wait for a higher one.
//
// Checks of type HTTP, TCP and gRPC are run, TTL checks expire, and alias checks follow their service. The clock is the
// real one plus what Agent.Advance added. With Config.Manual, checks run in Advance only. The sockets are real, so a
// test cannot run the stand-in in a bubble of testing/synctest.
//
// Not supported, and a fault: namespaces, partitions, ?filter, scripts and containers as checks. One goroutine runs the
// checks, and others serve HTTP. All end with the test.
package testconsul
