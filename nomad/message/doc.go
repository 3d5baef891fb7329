// Package message defines what is sent between agents: the requests and replies of every RPC, and the commands of the Raft
// log with their type numbers. What is stored, such as jobs and nodes, is in package nomad and in the packages that
// its doc lists. What servers and clients only report is here: statistics, explanations, differences, events, sessions and streams.
//
// A request embeds QueryOptions if it reads and WriteRequest if it writes. A reply embeds QueryMeta or WriteMeta. Generic
// code reaches them by the methods Query, Write, ReadMeta and WrittenMeta. Envelope returns what the RPC layer checks
// before it calls a handler: region, namespace, token and consistency.
//
// Field names are the wire names (package codec). The package validates nothing and starts no goroutine.
package message
