package api

import "maps"

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

// Sandbox compares the live and the declared sandbox of a task. An empty task means all
// sandboxed tasks. It exists only in open-nomad.
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
