// Package agent runs a Nomad agent: it reads the configuration, starts a server and a client, and
// serves the HTTP API.
//
//	flags, files ──Parse──▶ Settings ──check──▶ server.Config, client.Config
//
//	starting ──listeners, data_dir, server, client──▶ running ──signal, fault──▶ stopping ──▶ gone
//
// The configuration file is one struct (config*.go). The tags of its fields hold the key, the
// default and the missing feature behind a key. The decoder, the checks and the API walk over
// these fields.
//
// SIGINT and SIGTERM stop the agent. Its tasks keep running, except with -dev. SIGHUP reloads the
// configuration and applies the reloadable keys.
//
// The package makes no decision about jobs. Run starts the long-lived goroutines: the server, the
// client, telemetry and one for each HTTP listener. The agent command adds one for SIGHUP.
package agent
