// Package nodes tests clusters of several processes: nodes that drain, move and disconnect, servers that join,
// stall, leave and change to TLS.
package nodes
