// Package agent runs a Nomad agent. It starts a server and a client with the settings of package
// config, and serves the HTTP API.
//
//	starting ──listeners, data_dir, server, client──▶ running ──signal, fault──▶ stopping ──▶ gone
//
// SIGINT and SIGTERM stop the agent. Its tasks keep running, except with -dev. SIGHUP reloads the
// configuration and applies the reloadable keys.
//
// The package makes no decision about jobs. Run starts the long-lived goroutines: the server, the
// client, telemetry and one for each HTTP listener. The agent command adds one for SIGHUP.
package agent
