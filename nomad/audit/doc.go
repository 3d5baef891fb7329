// Package audit writes an audit log of an agent: what was requested, by whom, and the result.
// Each event is one line of JSON (website/content/docs/audit.md lists all keys).
//
//	HTTP request, RPC call ─▶ OperationReceived ─▶ it runs ─▶ OperationComplete
//	token signed           ─────────────────────────────────▶ OperationComplete
//	                                 │                           │
//	                                 └──▶ filters ─▶ one write(2) of complete lines
//
// With delivery_guarantee enforced, a caller gets an error if a line could not be written: its
// request is then not run, or not answered. With best-effort, the failure is logged and
// counted, and the request continues. Lines are not synced individually. A crash of the machine
// loses what the kernel had not written yet.
//
// No event contains a secret: there is no field for a token, a header, a query or a body. Text
// from callers (paths, user agents, errors) is truncated, escaped to ASCII, and stripped of
// signed tokens.
//
// The file is opened through a descriptor of its directory, never through a symbolic link. It
// is locked, so that two agents cannot rotate it at the same time. A large or old file is
// renamed to <name>-<nanoseconds since 1970>.log, and a new one is created, always between two
// lines.
//
// The package starts no goroutine.
package audit
