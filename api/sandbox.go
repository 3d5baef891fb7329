package api

// TaskSandbox is the declared sandbox of a task, and the live one as reported by the
// kernel.
type TaskSandbox struct {
	PID     int
	Level   string
	Explain string
	Layers  []SandboxLayer
}

// SandboxLayer is one property of a sandbox. If the kernel does not report it, Live is
// empty and Match is true.
type SandboxLayer struct {
	Name     string
	Declared string
	Live     string
	Match    bool
	Stricter bool `json:",omitempty"` // stricter than declared: Match is also true
}
