// Package jobspec reads job files: HCL2 or JSON text in, *api.Job out.
//
//	source ─scan─▶ syntax tree ─variables─▶ var.* ─locals─▶ local.* ─decode─▶ *api.Job
//
// The blocks and attributes of a job file are the `hcl` tags of package api: one
// decoder walks any of its structs. Only where a file has other words than the
// struct (shorthands of constraints, ports, job-level tasks) is there code, in
// shorthand.go.
//
// A reference that only the client can resolve, such as ${attr.kernel.name} or
// ${NOMAD_PORT_http}, stays in the job as it was written.
//
// Servers parse text of strangers. So the nesting of a file is bounded before it
// is parsed (scan.go), and every evaluation draws on one budget of work
// (budget.go); functions that read files exist only when Config.AllowFS is set.
//
// The package starts no goroutine and never asks an agent.
package jobspec
