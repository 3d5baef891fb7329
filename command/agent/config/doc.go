// Package config is the configuration of an agent. It reads files and flags, checks the keys, and
// builds the configurations of the server, the client, the certificate store and the audit log.
//
//	defaults, -dev, files, flags ──▶ Config ──check──▶ Settings ──▶ server.Config, client.Config, ...
//
// The configuration file is one struct, Config. The tags of its fields hold the key and its
// default and, for a key that is not supported yet, the missing feature. The decoder, the checks,
// the reload and the API iterate over these fields. Settings adds the place where each key was set, for error messages.
//
// The package opens no listener, starts no goroutine and writes no file. It reads configuration
// files, TLS files, the introduction token and the kind of the stored Raft log, and it resolves host
// names in addresses.
package config
