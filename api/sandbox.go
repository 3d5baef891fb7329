package api

import "maps"

// TaskSandbox is a task's sandbox as declared, beside what the kernel tells of the live
// process.
type TaskSandbox struct {
	PID     int
	Level   string
	Explain string
	Layers  []SandboxLayer
}

// SandboxLayer is one property of a sandbox. Live is empty for what the kernel does not
// tell of another process; Match is true then.
type SandboxLayer struct {
	Name     string
	Declared string
	Live     string
	Match    bool
	Stricter bool `json:",omitempty"` // than declared; Match is true then
}

// Sandbox compares the sandbox of one task, or of every task that runs in one when none
// is named, with what was declared of it. It is of open-nomad.
func (a *Allocations) Sandbox(alloc *Allocation, task string, q *QueryOptions) (map[string]*TaskSandbox, error) {
	if task != "" {
		own := QueryOptions{}
		if q != nil {
			own = *q
		}
		own.Params = maps.Clone(own.Params)
		if own.Params == nil {
			own.Params = map[string]string{}
		}
		own.Params["task"] = task
		q = &own
	}
	out, _, err := get[map[string]*TaskSandbox](a.client, clientAllocPath(alloc.ID, "/sandbox"), q)
	return out, err
}
