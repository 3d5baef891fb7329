package nomad

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
