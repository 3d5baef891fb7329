package config

import (
	"cmp"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// CheckTask checks a task's config block as the job has it, with references not interpolated.
// Values with references are checked on the node.
func CheckTask(block map[string]any) error {
	_, err := decodeMasked(block)
	return err
}

// TaskABI returns the Landlock ABI that a node must offer for the task, 0 for any: the block's
// require_abi, or the need of its other options. It returns 0 for a block that CheckTask refuses.
func TaskABI(block map[string]any) int {
	_, abi := block["require_abi"]
	_, network := block["network"]
	if !abi && !network {
		return 0
	}
	t, err := decodeMasked(block)
	if err != nil {
		return 0
	}
	if t.Network != nil {
		return max(t.RequireABI, landlock.ABITCP)
	}
	return t.RequireABI
}

// decodeMasked decodes a block without values that depend on references.
func decodeMasked(block map[string]any) (Task, error) {
	masked := make(map[string]any, len(block))
	for name, value := range block {
		if name == "unveil" {
			value = paths(value)
		}
		if v, ok := drivers.Mask(value, false); ok {
			masked[name] = v
		} else if name == "command" {
			masked[name] = "known later"
		}
	}
	v, err := drivers.Decode(masked, TaskSpec)
	if err != nil {
		return Task{}, err
	}
	return DecodeTask(v)
}

// paths cuts paths off before their first reference. The modes, and whether the path is absolute,
// are still checked.
func paths(v any) any {
	switch v := v.(type) {
	case []any:
		return pathList(v)
	case []string:
		return pathList(v)
	}
	return v
}

func pathList[T any](list []T) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
		s, _ := any(e).(string)
		if modes, path, ok := strings.Cut(s, ":"); ok && strings.Contains(path, drivers.Reference) &&
			!strings.Contains(modes, drivers.Reference) {
			known, _, _ := strings.Cut(path, drivers.Reference)
			out[i] = modes + ":" + cmp.Or(known, "/")
		}
	}
	return out
}
