package message

// AllocSandboxRequest is the request of ClientAllocations.Sandbox and Allocations.Sandbox. Without a task, it selects
// all sandboxed tasks.
type AllocSandboxRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocSandboxResponse is the reply of ClientAllocations.Sandbox and Allocations.Sandbox: a report for each task.
type AllocSandboxResponse struct {
	Tasks map[string]*TaskSandbox
	QueryMeta
}

// TaskSandbox compares the declared sandbox of a task with the kernel's view of the running process. It contains neither
// the task's environment nor its arguments.
type TaskSandbox struct {
	PID     int
	Level   string // the isolation level of the task
	Explain string // the node's driver.<name>.explain_denials
	Layers  []SandboxLayer
}

// SandboxLayer is one property of a sandbox. Layers are listed in the order in which they are applied.
type SandboxLayer struct {
	Name     string
	Declared string
	Live     string // empty if the kernel does not report it
	Match    bool
	Stricter bool // stricter than declared; Match is also true
}
