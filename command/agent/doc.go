// Package agent is the process: configuration in, a server and a client running,
// the HTTP API in front of them.
//
//	flags, files ──Parse──▶ Settings ──check──▶ server.Config, client.Config
//
//	starting ──listeners, data_dir, server, client──▶ running ──signal, fault──▶ stopping ──▶ gone
//
// The configuration file is one struct (config*.go): names, defaults, and what is
// still to come are tags of its fields, and everything else walks over them.
// SIGINT and SIGTERM stop the agent; its tasks go on, unless it keeps nothing
// (-dev). SIGHUP reads the files again and takes over the level of the log.
//
// It decides nothing about jobs. Goroutines, all inside Run: the server, the
// client, one for each HTTP listener, one for signals.
package agent
