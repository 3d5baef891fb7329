// Package jobspec parses job files in HCL2 or JSON to *workload.Job.
//
//	source ─scan─▶ syntax tree ─variables─▶ var.* ─locals─▶ local.* ─decode─▶ *workload.Job
//
// The `hcl` tags of package api define the blocks and attributes of a job file. One
// decoder (decode.go) handles all structs. Syntax that differs from the structs
// (shorthands of constraints, ports, job-level tasks) is in shorthand.go.
//
// References that only the client can resolve, such as ${attr.kernel.name} or
// ${NOMAD_PORT_http}, are kept as text.
//
// Servers parse untrusted text. So scan.go limits the nesting of a file before it is
// parsed, and all evaluations share a budget of work (budget.go). Functions that read
// files are available only if Config.AllowFS is set.
//
// The package starts no goroutine and makes no request to an agent.
package jobspec
