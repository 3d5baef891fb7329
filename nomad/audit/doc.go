// Package audit writes what was asked of an agent, by whom and how it ended, as one
// line of JSON for each event (website/content/docs/audit.md has every key).
//
//	HTTP request, RPC call ─▶ OperationReceived ─▶ it runs ─▶ OperationComplete
//	token signed           ─────────────────────────────────▶ OperationComplete
//	                                 │                           │
//	                                 └──▶ filters ─▶ one write(2) of whole lines
//
// With the guarantee enforced a caller is told when a line could not be written, and
// what it asked for is not done, or not answered; with best-effort it is logged and
// counted, and goes on. Lines are not synced to the disk one by one: what a crash of
// the machine loses is what the kernel had not written yet.
//
// No event holds a secret: there is no field for a token, a header, a query or a body.
// What others may say freely (paths, user agents, errors) is bounded, escaped to
// ASCII, and stripped of signed tokens.
//
// The file is reached through a descriptor of its directory, never through a link; it
// is locked, so that two agents don't rotate it under each other. When it is full or
// old it becomes <name>-<nanoseconds since 1970>.log and a new one is begun, between
// two lines.
//
// The package starts no goroutine.
package audit
