package nomad

// AllocSandboxRequest is the request of ClientAllocations.Sandbox and
// Allocations.Sandbox. Without a task it is about each that runs in a sandbox.
type AllocSandboxRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocSandboxResponse is the reply of ClientAllocations.Sandbox and
// Allocations.Sandbox: a report for each task.
type AllocSandboxResponse struct {
	Tasks map[string]*TaskSandbox
	QueryMeta
}

// TaskSandbox is a task's sandbox as declared, beside what the kernel tells of the live
// process. It holds neither the task's environment nor its arguments.
type TaskSandbox struct {
	PID     int
	Level   string // of the node, as in driver.exec2.level
	Explain string // what of refusals is told, as in driver.exec2.explain_denials
	Layers  []SandboxLayer
}

// SandboxLayer is one property of a sandbox, in the order in which they are laid.
type SandboxLayer struct {
	Name     string
	Declared string
	Live     string // empty when the kernel does not tell
	Match    bool
	Stricter bool // than declared; Match is true then
}
