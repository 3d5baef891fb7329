package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocSandboxRequest is the request of ClientAllocations.Sandbox and Allocations.Sandbox. Without a task, it selects
// all sandboxed tasks.
type AllocSandboxRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocSandboxResponse is the reply of ClientAllocations.Sandbox and Allocations.Sandbox: a report for each task.
type AllocSandboxResponse struct {
	Tasks map[string]*nomad.TaskSandbox
	QueryMeta
}
