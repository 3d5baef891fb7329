package exec2

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Types of the events that this driver makes.
const (
	denialEvent   = "Sandbox Denial"
	mismatchEvent = "Sandbox Mismatch"
)

// inMessage is how many refusals a message spells out; the details have them all.
const inMessage = 3

// denied makes an event of what was refused to a task.
func (w *watch) denied(r denials.Report) {
	w.mu.Lock()
	plain := w.plain
	w.mu.Unlock()
	first := len(r.Denials) - r.New
	fresh := slices.Clone(r.Denials[first:])
	slices.SortStableFunc(fresh, func(a, b denials.Denial) int {
		return map[bool]int{true: 1}[a.Common()] - map[bool]int{true: 1}[b.Common()]
	})
	var parts []string
	for _, d := range fresh[:min(len(fresh), inMessage)] {
		text := d.Text("unveil")
		if plain {
			text = d.Text(`unveil_paths of the node's plugin "exec2"`)
		}
		if n := r.Counts[slices.Index(r.Denials, d)]; r.Flood() && n > 1 {
			text += fmt.Sprintf(" %d times", n)
		}
		parts = append(parts, text)
	}
	if n := len(fresh) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	if len(fresh) == 0 {
		parts = append(parts, "what was reported before, or more than can be listed")
	}
	if r.Flood() {
		parts[0] = fmt.Sprintf("%d operations: %s", r.Count, parts[0])
	}
	if r.Last {
		parts = append(parts, "no more is reported of this task")
	}
	e := &drivers.TaskEvent{TaskID: r.TaskID, Type: denialEvent, At: r.At,
		Message: "the sandbox refused " + strings.Join(parts, "; "), Details: map[string]string{}}
	raw, err := json.Marshal(r.Denials)
	if err != nil {
		w.log.Error("refusals of a task could not be told", "task", r.TaskID, "err", err)
		return
	}
	e.Details["denials"], e.Details["count"] = string(raw), strconv.Itoa(r.Count)
	if r.More {
		e.Details["more"] = "true"
	}
	w.say(e)
}
